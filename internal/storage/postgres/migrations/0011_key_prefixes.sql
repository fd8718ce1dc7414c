-- How an API key begins, for whoever is asked whose it is and must not see the whole: `lk_` and 8 of its characters, which leaves a
-- generated key 208 random bits. Null until its tenant is reconciled again.
ALTER TABLE api_keys ADD COLUMN prefix text CHECK (length(prefix) = 11);
CREATE INDEX api_keys_prefix ON api_keys (prefix) WHERE prefix IS NOT NULL;
