"""daskkcl measured as a user would: each contestant in a fresh process."""
