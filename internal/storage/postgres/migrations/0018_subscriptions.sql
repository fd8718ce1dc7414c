-- Transaction that stored the event, so that a tenant's events can be read in an order to which commits only append: below the lowest
-- transaction in progress no event can be added. Null for events that were stored before this step.
ALTER TABLE events ADD COLUMN stored_by xid8;
ALTER TABLE events ALTER COLUMN stored_by SET DEFAULT pg_current_xact_id();
CREATE INDEX events_feed ON events (tenant_id, stored_by, id) WHERE stored_by IS NOT NULL;

-- Cursors of tenants that pull their events. providers, types: filter, empty for all; a type that ends with .* stands for all that begin so.
-- Everything up to position_transaction and position_event is acknowledged; received_from: lowest id of an event that is given. lease: ack
-- token of the events that were given last, up to leased_transaction and leased_event; null if these are acknowledged or given back.
-- held_until: nothing is given before. acknowledged: the last token that was acknowledged. version grows with each change.
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
  PRIMARY KEY (tenant_id, name)
);
