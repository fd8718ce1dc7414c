-- Who is signed in to the dashboard. id_sha256: of the secret in the cookie, so that whoever reads this table can sign in as
-- nobody. actor: whom it is for, as access decides with; never a token or an API key. actor_name: whose sessions are counted
-- together. tenant_id: of a session that a tenant's API key began. ends_at: at the latest; an idle one is over before.
CREATE TABLE sessions (
  id_sha256 bytea PRIMARY KEY,
  actor jsonb NOT NULL,
  actor_name text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C",
  created_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL
);
CREATE INDEX sessions_actor ON sessions (actor_name, created_at);
