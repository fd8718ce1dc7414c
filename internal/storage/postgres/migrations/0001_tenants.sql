-- One row that counts changes of tenants. It is raised inside each writing transaction, whose row lock lasts until the
-- commit: versions therefore become visible in their order, and a reader that asks for "version > mine" misses nothing.
CREATE TABLE directory_version (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version bigint NOT NULL
);
INSERT INTO directory_version (version) VALUES (0);

-- The highest leaseTransitions that wrote. A deposed leader carries a lower one and its transaction fails.
CREATE TABLE writer_fence (
  name text PRIMARY KEY,
  lease_transitions bigint NOT NULL
);

-- Ids compare byte by byte everywhere: an index on one collation does not serve a join on another.
-- A deleted tenant keeps its row (deleted_at), so that directories learn of the deletion by version.
-- slug is null while another tenant holds it or it is reserved; the wish stays in spec.
CREATE TABLE tenants (
  id text COLLATE "C" PRIMARY KEY,
  uid text NOT NULL UNIQUE,
  namespace text NOT NULL,
  name text NOT NULL,
  slug text,
  suspended boolean NOT NULL,
  spec jsonb NOT NULL,
  conditions jsonb NOT NULL DEFAULT '[]',
  version bigint NOT NULL,
  resource_created_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz
);
CREATE UNIQUE INDEX tenants_live_slug ON tenants (slug) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX tenants_live_name ON tenants (namespace, name) WHERE deleted_at IS NULL;
CREATE INDEX tenants_waiting_slug ON tenants ((spec ->> 'slug'), resource_created_at, uid)
  WHERE deleted_at IS NULL AND slug IS NULL;
CREATE INDEX tenants_version ON tenants (version, id);

-- A freed slug waits for the resource that had it, so that a provider's calls never reach the next taker.
CREATE TABLE slug_reservations (
  slug text PRIMARY KEY,
  namespace text NOT NULL,
  name text NOT NULL,
  reserved_until timestamptz NOT NULL
);

-- Keys are stored as SHA-256 only. ends_at is set once the key was rotated out.
CREATE TABLE api_keys (
  sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
  tenant_id text COLLATE "C" NOT NULL REFERENCES tenants (id),
  name text NOT NULL,
  scopes text[] NOT NULL,
  expires_at timestamptz,
  ends_at timestamptz,
  created_at timestamptz NOT NULL
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, name);

-- AES-256-GCM; the authenticated data is the tenant's id and field. ordinal tells apart the live values of one field.
CREATE TABLE tenant_secrets (
  tenant_id text COLLATE "C" NOT NULL REFERENCES tenants (id),
  field text NOT NULL,
  ordinal smallint NOT NULL CHECK (ordinal BETWEEN 0 AND 4),
  key_id text NOT NULL,
  nonce bytea NOT NULL CHECK (octet_length(nonce) = 12),
  ciphertext bytea NOT NULL,
  source_name text NOT NULL,
  source_version text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, field, ordinal)
);

CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  tenant_id text COLLATE "C",
  detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_tenant ON audit (tenant_id, id);

-- Absolute amounts: a flush that is repeated changes nothing.
CREATE TABLE usage_hourly (
  tenant_id text COLLATE "C" NOT NULL,
  meter text NOT NULL,
  hour timestamptz NOT NULL,
  amount bigint NOT NULL,
  PRIMARY KEY (tenant_id, meter, hour)
);

-- Which life of its Redis data a tenant was last seeded for; another one in Redis means that records were lost.
CREATE TABLE record_epochs (
  tenant_id text COLLATE "C" PRIMARY KEY,
  epoch text NOT NULL,
  seeded_at timestamptz NOT NULL
);
