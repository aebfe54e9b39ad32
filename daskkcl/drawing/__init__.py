"""Pictures and pages of numbers: matplotlib when it is there, plain HTML and SVG otherwise. Nothing here computes."""
