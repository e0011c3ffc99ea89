"""Stage 3, store: remember. Every SQL statement of the product lives here."""
