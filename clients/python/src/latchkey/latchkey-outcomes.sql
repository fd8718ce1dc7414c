-- Table of `withTransaction`: the outcome of an operation, written in the transaction of its effect.
CREATE TABLE latchkey_outcomes (
  scope text NOT NULL,
  key text NOT NULL,
  fingerprint text,
  status smallint,
  headers text,
  body text,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX latchkey_outcomes_expires_at ON latchkey_outcomes (expires_at);
