"""ROOT of one file: collect -> detect -> plan -> a sentence. No daemon, no database, no network."""
