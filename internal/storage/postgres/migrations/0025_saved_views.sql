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
