import type { JsonObject } from './event-body.ts'
import { isShortText } from './event-id.ts'
import type { RefusalCause } from './provider.ts'

/** What a raw type becomes: a normalized type, or what the body makes of it; undefined leaves it unlisted. */
export type TypeRule = string | ((body: JsonObject) => string | undefined)

/** Raw types and what they become. A Map, since a raw type may be called `constructor`. */
export type TypeTable = ReadonlyMap<string, TypeRule>

/** An event's types, judged. */
export type EventTypes =
  | { readonly kind: 'types'; readonly rawType: string; readonly type: string }
  | { readonly kind: 'refused'; readonly cause: Extract<RefusalCause, 'event_type_malformed'> }

const malformed: EventTypes = { kind: 'refused', cause: 'event_type_malformed' }
const typeCharsMax = 255
const dotted = /^[a-z0-9_]+(\.[a-z0-9_]+)+$/

/** Makes a table of rows, from raw to normalized. */
export function typeTable(rows: Readonly<Record<string, TypeRule>>): TypeTable {
  return new Map(Object.entries(rows))
}

/**
 * Judges what an event calls its type.
 * @param rawType A missing one (undefined, null, '') becomes `unknown`, since an event that is signed and has an id is worth
 *   more than its label; one that cannot be a label (no text, over 255 characters, control characters) is refused
 * @param typeOf the provider's own function from raw to normalized
 */
export function judgeTypes(rawType: unknown, typeOf: (rawType: string) => string): EventTypes {
  const raw = rawType === undefined || rawType === null || rawType === '' ? 'unknown' : rawType
  if (typeof raw !== 'string' || !isShortText(raw, typeCharsMax)) return malformed
  return { kind: 'types', rawType: raw, type: typeOf(raw) }
}

/** What a table makes of a raw type; undefined where no row lists it, or its row leaves it to the body and that is silent. */
export function listedType(table: TypeTable, rawType: string, body: JsonObject): string | undefined {
  const rule = table.get(rawType)
  return typeof rule === 'function' ? rule(body) : rule
}

/**
 * The normalized type of a raw one that no table lists: lowercase, `-` as `_`, anything else than letters, digits and `_`
 * as a dot, at most 255 characters, after the provider's name.
 */
export function unlistedType(provider: string, rawType: string): string {
  const segments = rawType
    .toLowerCase()
    .replaceAll('-', '_')
    .split(/[^a-z0-9_]+/)
    .filter((segment) => segment !== '')
  if (segments.length === 0) segments.push('unknown')
  return [provider, ...segments].join('.').slice(0, typeCharsMax).replace(/\.$/, '')
}

/** Tells whether a type has the form of normalized ones: lowercase segments, two or more, with dots between. */
export function isDottedType(type: string): boolean {
  return type.length <= typeCharsMax && dotted.test(type)
}
