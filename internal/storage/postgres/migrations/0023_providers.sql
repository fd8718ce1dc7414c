-- Declarations of Provider resources in force. declaration is JSON text, which intake compiles; null once the resource is gone, so that
-- directories, which read rows with a newer version, forget it.
CREATE TABLE providers (
  name text PRIMARY KEY,
  uid text NOT NULL,
  generation bigint NOT NULL,
  aliases text[] NOT NULL,
  is_unverified boolean NOT NULL,
  declaration text,
  version bigint NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX providers_by_version ON providers (version);
