-- Where an event came from. origin: provider (a provider called), service (another service handed it in), simulation, test (a test of
-- the callback). origin_by: the actor of service and test, the id of a simulation. Rows from before count as a provider's.
ALTER TABLE events ADD COLUMN origin text NOT NULL DEFAULT 'provider', ADD COLUMN origin_by text;
