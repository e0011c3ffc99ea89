"""What is made of the source for those who install it: Debian packages, an offline bundle, an image; no part of it."""
