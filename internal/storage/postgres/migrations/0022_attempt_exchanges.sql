-- exchange: request, timing and response headers of an attempt as JSON text, without bodies, signatures and credentials: usually 300 to 600
-- bytes, with at most 32 headers of 4 096 characters together. One text column, since it is read as a whole and the statement that
-- completes deliveries pays for each column. Null where no call was made, and where a version without the column made it.
ALTER TABLE attempts ADD COLUMN exchange text;
