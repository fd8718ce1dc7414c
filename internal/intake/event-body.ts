import { hasRepeatedMember, isNestedTooDeep } from '#internal/base/index.ts'

/** A JSON object whose members nobody has looked at yet. */
export type JsonObject = { readonly [name: string]: unknown }

/** A body, read. `text` is the received text, to be passed on as it is; `value` is for reading fields only. */
export type EventBody =
  | { readonly kind: 'object'; readonly text: string; readonly value: JsonObject }
  | { readonly kind: 'refused'; readonly cause: 'body_not_json' | 'body_too_deep' | 'body_ambiguous' }

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const notJson: EventBody = { kind: 'refused', cause: 'body_not_json' }
const tooDeep: EventBody = { kind: 'refused', cause: 'body_too_deep' }
const ambiguous: EventBody = { kind: 'refused', cause: 'body_ambiguous' }

/**
 * Reads bytes that must be one JSON object in UTF-8, at most `jsonDepthMax` levels deep. A byte order mark is refused, as RFC 8259 section 8.1 allows, since
 * whoever gets the text spliced into other JSON could not read it; so is a name that stands twice at the top level, since
 * readers do not agree which counts.
 */
export function readEventBody(body: Uint8Array): EventBody {
  const text = decodeUtf8(body)
  return text === undefined ? notJson : readEventText(text)
}

/** Reads a text that must be one JSON object; see `readEventBody`. */
export function readEventText(text: string): EventBody {
  if (isNestedTooDeep(text)) return tooDeep
  const value = parseObject(text)
  if (value === undefined) return notJson
  return hasRepeatedMember(text, value) ? ambiguous : { kind: 'object', text, value }
}

/** The text of UTF-8 bytes, a byte order mark included; undefined for bytes that are not UTF-8. */
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

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What stands at a path of names; undefined where the path leads nowhere. Inherited members are not seen. */
export function memberAt(body: JsonObject, ...path: readonly string[]): unknown {
  let value: unknown = body
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** The text at a path of names; undefined where there is something else, or nothing. */
export function textAt(body: JsonObject, ...path: readonly string[]): string | undefined {
  const value = memberAt(body, ...path)
  return typeof value === 'string' ? value : undefined
}
