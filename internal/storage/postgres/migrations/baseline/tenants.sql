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

-- Names of the destinations that a tenant's spec configures.
CREATE FUNCTION destinations_of(spec jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_remove(ARRAY[CASE WHEN spec ? 'callback' THEN 'callback' END,
  CASE WHEN spec ? 'notifications' THEN 'notifications' END], NULL) $$;

-- Ids compare byte by byte everywhere: an index on one collation does not serve a join on another.
-- A deleted tenant keeps its row (deleted_at), so that directories learn of the deletion by version.
-- slug is null while another tenant holds it or it is reserved; the wish stays in spec.
-- record_store: where new records and locks of the tenant are written. record_store_before: the store that had them before and may still
-- have some; null once it has none. The generation grows with every move. record_fence: the earlier store gave no higher one before its
-- last entry ended.
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
  deleted_at timestamptz,
  destinations text[] COLLATE "C" NOT NULL GENERATED ALWAYS AS (destinations_of(spec)) STORED,
  record_store text COLLATE "C" NOT NULL DEFAULT 'redis',
  record_store_before text COLLATE "C",
  record_store_moved_at timestamptz,
  record_store_generation integer NOT NULL DEFAULT 0,
  record_fence bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX tenants_live_slug ON tenants (slug) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX tenants_live_name ON tenants (namespace, name) WHERE deleted_at IS NULL;
CREATE INDEX tenants_waiting_slug ON tenants ((spec ->> 'slug'), resource_created_at, uid)
  WHERE deleted_at IS NULL AND slug IS NULL;
CREATE INDEX tenants_version ON tenants (version, id);
CREATE INDEX tenants_deleted ON tenants (deleted_at) WHERE deleted_at IS NOT NULL;

-- A freed slug waits for the resource that had it, so that a provider's calls never reach the next taker.
CREATE TABLE slug_reservations (
  slug text PRIMARY KEY,
  namespace text NOT NULL,
  name text NOT NULL,
  reserved_until timestamptz NOT NULL
);

-- Keys are stored as SHA-256 only. ends_at is set once the key was rotated out. prefix: the start of the key, for callers who search its
-- owner and must not see the whole: `lk_` and 8 of its characters, which leaves a generated key 208 random bits.
CREATE TABLE api_keys (
  sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
  tenant_id text COLLATE "C" NOT NULL REFERENCES tenants (id),
  name text NOT NULL,
  scopes text[] NOT NULL,
  expires_at timestamptz,
  ends_at timestamptz,
  created_at timestamptz NOT NULL,
  prefix text NOT NULL CHECK (length(prefix) = 11)
);
CREATE INDEX api_keys_prefix ON api_keys (prefix);
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
