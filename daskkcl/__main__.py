"""``python -m daskkcl``."""

from daskkcl.cli import main

if __name__ == "__main__":
    main(prog_name="python -m daskkcl")
