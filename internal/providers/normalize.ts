// Parsing steps that all provider adapters share. All functions are pure and never throw.
import { hasRepeatedMember, isNestedTooDeep, parseTimestamp, timestampMsMax } from '#internal/base/index.ts'
import type {
  Adapter,
  CallHeaders,
  Normalization,
  ProviderCall,
  ProviderHeader,
  RefusalCause,
} from './provider.ts'

/** Refusal of a call or of one of its values, with the cause. */
export interface Refused {
  readonly kind: 'refused'
  readonly cause: RefusalCause
}

/** Creates a refusal. */
export function refused(cause: RefusalCause): Refused {
  return { kind: 'refused', cause }
}

/** Result of reading a header that has several names. */
export type HeaderReading =
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'conflict' }

/**
 * Reads a header by its neutral name and its vendor's name. Different values are a conflict, so that no value is verified while another one
 * is used. An empty header is treated as absent.
 */
export function readHeader(headers: CallHeaders, { names }: Pick<ProviderHeader, 'names'>): HeaderReading {
  let found: string | undefined
  for (const name of names) {
    const value = headers.get(name)
    if (value === null) continue
    if (found !== undefined && found !== value) return { kind: 'conflict' }
    found = value
  }
  return found === undefined || found === '' ? { kind: 'absent' } : { kind: 'value', value: found }
}

/** JSON object whose members are not validated. */
export type JsonObject = { readonly [name: string]: unknown }

/** Result of parsing a body. `text` is forwarded as received. `value` is only for reading fields. */
export type EventBody =
  | { readonly kind: 'object'; readonly text: string; readonly value: JsonObject }
  | Refused

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Parses bytes that must be one JSON object in UTF-8, at most `jsonDepthMax` levels deep. Refuses a byte order mark, as RFC 8259 section
 * 8.1 allows, because it breaks the text when it is inserted into other JSON. Refuses a member that is repeated at the top level, because
 * parsers disagree on which value is valid.
 */
export function readEventBody(body: Uint8Array): EventBody {
  const text = decodeUtf8(body)
  return text === undefined ? refused('body_not_json') : readEventText(text)
}

/** Parses text that must be one JSON object, with the same rules as `readEventBody`. */
export function readEventText(text: string): EventBody {
  if (isNestedTooDeep(text)) return refused('body_too_deep')
  const value = parseObject(text)
  if (value === undefined) return refused('body_not_json')
  return hasRepeatedMember(text, value) ? refused('body_ambiguous') : { kind: 'object', text, value }
}

/** Decodes UTF-8, keeping a byte order mark. Returns undefined for invalid bytes. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Returns whether a JSON value is an object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns the member at a path of names, ignoring inherited members; undefined if the member does not exist. */
export function memberAt(body: JsonObject, ...path: readonly string[]): unknown {
  let value: unknown = body
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** Reads a member of a body; undefined if it does not exist. */
export type MemberReader = (body: JsonObject) => unknown

/** Returns the reader of the member at a dotted path, as `memberAt`; in an array, a name is the position of an element. */
export function memberReader(dottedPath: string): MemberReader {
  const path = dottedPath.split('.')
  const [name = ''] = path
  if (path.length === 1) return (body) => (Object.hasOwn(body, name) ? body[name] : undefined)
  return (body) => {
    let value: unknown = body
    for (const each of path) {
      if (isObject(value)) value = Object.hasOwn(value, each) ? value[each] : undefined
      else if (Array.isArray(value) && /^[0-9]{1,6}$/.test(each)) value = value[Number(each)]
      else return undefined
    }
    return value
  }
}

/** Returns the text at a path of names, ignoring inherited members; undefined if the value is not text. */
export function textAt(body: JsonObject, ...path: readonly string[]): string | undefined {
  const value = memberAt(body, ...path)
  return typeof value === 'string' ? value : undefined
}

/** A valid event id, or the cause of its refusal. */
export type EventId = { readonly kind: 'id'; readonly id: string } | Refused

/** Maximum characters of event ids and types. */
const labelCharsMax = 255
/** Control characters and lone surrogates are invalid, since Postgres refuses them. */
const isLabel = (text: string) =>
  text.length >= 1 &&
  text.length <= labelCharsMax &&
  !/[\u0000-\u001f\u007f-\u009f]/.test(text) &&
  text.isWellFormed()

/**
 * Reads an event id from a body: 1 to 255 characters without control characters. undefined, null and '' count as missing; any other invalid
 * value is malformed.
 */
export function readEventId(value: unknown): EventId {
  if (value === undefined || value === null || value === '') return refused('event_id_missing')
  return typeof value === 'string' && isLabel(value)
    ? { kind: 'id', id: value }
    : refused('event_id_malformed')
}

/**
 * Reads an event id from a header. Refuses commas and spaces: a header that is sent twice, with ids `a` and `b`, is read as `a, b`, which
 * is the id of no event.
 */
export function readHeaderEventId(value: string): EventId {
  return /[\s,]/.test(value) ? refused('event_id_malformed') : readEventId(value)
}

/** Parses an RFC 3339 time to milliseconds since the epoch. Returns undefined for any other value and for years outside 1970 to 9999. */
export function readIsoTime(value: unknown): number | undefined {
  return typeof value === 'string' ? inRange(parseTimestamp(value) ?? -1) : undefined
}

/** Converts a Unix time in seconds to milliseconds; fractions are allowed. Returns undefined in the same cases as `readIsoTime`. */
export function readUnixSeconds(value: unknown): number | undefined {
  return typeof value === 'number' ? inRange(Math.round(value * 1000)) : undefined
}

function inRange(ms: number): number | undefined {
  return ms >= 0 && ms <= timestampMsMax ? ms : undefined
}

/** Derives `<provider>.<raw>` in lower case: `-` becomes `_`, and other special characters become dots. At most 255 characters. */
export function unlistedType(provider: string, rawType: string): string {
  const segments = rawType
    .toLowerCase()
    .replaceAll('-', '_')
    .split(/[^a-z0-9_]+/)
    .filter((segment) => segment !== '')
  if (segments.length === 0) segments.push('unknown')
  return [provider, ...segments].join('.').slice(0, labelCharsMax).replace(/\.$/, '')
}

/** Returns whether a type has the normalized form: two or more lowercase segments separated by dots. */
export function isDottedType(type: string): boolean {
  return type.length <= labelCharsMax && /^[a-z0-9_]+(\.[a-z0-9_]+)+$/.test(type)
}

/**
 * Returns the raw type: `unknown` if it is missing, undefined if it is malformed. A signed event with an id is kept even without a type.
 */
export function readRawType(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return 'unknown'
  return typeof value === 'string' && isLabel(value) ? value : undefined
}

/** Values that an adapter has read from a verified call. */
export interface EventParts {
  readonly id: EventId
  readonly rawType: unknown
  /** Returns the normalized type of a valid raw type. */
  typeOf(rawType: string): string
  readonly occurredAtMs: number | undefined
  readonly payload: string
}

/** Creates the event of a verified call, or refuses its id or type. */
export function makeEvent({ id, rawType, typeOf, occurredAtMs, payload }: EventParts): Normalization {
  if (id.kind === 'refused') return id
  const raw = readRawType(rawType)
  if (raw === undefined) return refused('event_type_malformed')
  return { kind: 'event', sourceEventId: id.id, rawType: raw, type: typeOf(raw), occurredAtMs, payload }
}

/** Verifies and normalizes a call. Pure, but needs much CPU time for large bodies. Never throws. */
export function readCall<Keys>(provider: Adapter<Keys>, call: ProviderCall, keys: Keys): Normalization {
  const verification = provider.verify(call, keys)
  return verification.kind === 'refused' ? verification : provider.normalize(call)
}
