-- Cursors of tenants that pull their events. providers, types: filter, empty for all; a type that ends with .* stands for all that begin so.
-- Everything up to position_transaction and position_event is acknowledged; received_from: lowest id of an event that is given. lease: ack
-- token of the events that were given last, up to leased_transaction and leased_event; null if these are acknowledged or given back.
-- held_until: nothing is given before. acknowledged: the last token that was acknowledged. version grows with each change.
-- A subscription with idle_days is deleted when the tenant creates another one and it has not been used for so many days. used_at: a stream
-- of it began or ended last.
CREATE TABLE subscriptions (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  providers text[] NOT NULL,
  types text[] NOT NULL,
  position_transaction xid8 NOT NULL,
  position_event text COLLATE "C" NOT NULL,
  received_from text COLLATE "C" NOT NULL,
  lease text COLLATE "C",
  leased_transaction xid8,
  leased_event text COLLATE "C",
  held_until timestamptz NOT NULL DEFAULT '-infinity',
  acknowledged text COLLATE "C",
  acknowledged_at timestamptz,
  version bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  idle_days smallint,
  used_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, name)
);
