CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  tenant_id text COLLATE "C",
  detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_tenant ON audit (tenant_id, id);
-- Of all processes that see a soft limit crossed, the one whose row comes first reports it.
CREATE UNIQUE INDEX audit_soft_limits ON audit (tenant_id, (detail ->> 'limit'), (detail ->> 'period'))
  WHERE action = 'usage.soft_limit_crossed';
-- One entry per commit of locks: its repeats write the entry again, in case the reply of Redis to the first call was lost. An id can be
-- used again once Redis has forgotten it, hence the time of the commit.
CREATE UNIQUE INDEX audit_lock_commits ON audit (tenant_id, (detail ->> 'id'), (detail ->> 'committedAt'))
  WHERE action = 'usage.committed' AND detail ->> 'kind' = 'locks';

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

-- Filters of the event list that a person has named in the dashboard. actor_name: owner, as in the audit log. tenant_id: tenant that the
-- filter names, or the tenant of the owner's API key; the view is deleted with it. query: fields of the filter, as in an address. seen_at:
-- when the owner last opened the event list, to the day; a view is deleted a year later.
CREATE TABLE saved_views (
  actor_name text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C",
  query text NOT NULL,
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (actor_name, name)
);
