-- Decision of the guardrail that counted the usage (allow, warn), for its repeats. Null: reported, not decided.
ALTER TABLE usage_emissions ADD COLUMN decision text;
