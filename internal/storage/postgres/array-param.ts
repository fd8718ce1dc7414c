const textOid = 25
const float8Oid = 701
const headerBytes = 20

/**
 * A `text[]` parameter in Postgres' binary form. `pg` would write a JavaScript array as one quoted literal, which costs both
 * sides several passes over each JSON text; lengths before raw bytes cost one. Give it a cast: `$1::text[]`. A string with
 * U+0000 fails in the server (22021), like any text. Format: array_recv in
 * https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/utils/adt/arrayfuncs.c
 */
export function textArrayParam(values: readonly (string | null)[]): Buffer {
  let length = headerBytes
  for (const value of values) length += 4 + (value === null ? 0 : Buffer.byteLength(value))
  const buffer = Buffer.allocUnsafe(length)
  // Dimensions, "has nulls", element type; then the one dimension's size and lower bound.
  buffer.writeInt32BE(1, 0)
  buffer.writeInt32BE(values.includes(null) ? 1 : 0, 4)
  buffer.writeInt32BE(textOid, 8)
  buffer.writeInt32BE(values.length, 12)
  buffer.writeInt32BE(1, 16)
  let at = headerBytes
  for (const value of values) {
    if (value === null) {
      at = buffer.writeInt32BE(-1, at)
      continue
    }
    const written = buffer.write(value, at + 4)
    buffer.writeInt32BE(written, at)
    at += 4 + written
  }
  return buffer
}

/**
 * A `float8[]` parameter in Postgres' binary form, exact for whole numbers to 2^53: the cheapest way for numbers and times in
 * milliseconds, since neither side makes text of them. Give it a cast: `$1::float8[]`.
 */
export function numberArrayParam(values: readonly number[]): Buffer {
  const buffer = Buffer.allocUnsafe(headerBytes + 12 * values.length)
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.length)
  view.setInt32(0, 1)
  view.setInt32(4, 0)
  view.setInt32(8, float8Oid)
  view.setInt32(12, values.length)
  view.setInt32(16, 1)
  let at = headerBytes
  for (const value of values) {
    view.setInt32(at, 8)
    view.setFloat64(at + 4, value)
    at += 12
  }
  return buffer
}
