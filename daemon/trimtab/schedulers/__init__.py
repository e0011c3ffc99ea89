"""The seam to what places work: the protocol, its adapters and the one snapshot reader."""
