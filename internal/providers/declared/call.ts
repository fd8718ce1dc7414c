import { hasRepeatedMember, isJsonObject, isNestedTooDeep, type JsonObject } from '#internal/base/index.ts'
import {
  type CallHeaders,
  type ProviderCall,
  type ProviderHeader,
  type Refused,
  refused,
} from '../provider.ts'
import { type FormFields, formField, formObject, parseForm } from './form.ts'
import type { Identity } from './keys.ts'
import type { Declaration } from './schema.ts'

// Parts of a call that adapters read: headers, the JSON body and its members. All functions are pure and never throw.

export type HeaderReading =
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'conflict' }

/**
 * Reads a header by its neutral and vendor's name. Two different values are a conflict, since one of them could escape verification. An
 * empty header is absent.
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

/** Counts the bytes and characters that are read. Only tests set it, to check the bound `workMax`. */
export type CountUnits = (units: number) => void

/** Maximum bytes and characters that `verify`, `normalize` and `answer` read in total. Grows linearly with the body's size. */
export function workMax(bodyBytes: number): number {
  return 64 * (bodyBytes + templateTextCharsMax)
}

/** Maximum number of characters that a template adds to the body. */
export const templateTextCharsMax: number = 65_536

export type VerificationStep =
  /** A scheme was selected by the call's signature. `position` is the index of the scheme in the declaration. */
  | { readonly kind: 'chosen'; readonly position: number; readonly value: string }
  | { readonly kind: 'parsed'; readonly texts: readonly string[]; readonly decodedCount: number }
  /** Signed time as sent; undefined if it is no time of the declared unit. */
  | { readonly kind: 'timed'; readonly text: string; readonly atMs: number | undefined }
  /** Text that the signature must cover. */
  | { readonly kind: 'joined'; readonly content: readonly (string | Uint8Array)[] }

/** Parts of a call, each parsed at most once. */
export class CallView {
  readonly call: ProviderCall
  readonly meter: CountUnits | undefined
  /** Called with each step. Set by `traceCall` only. */
  readonly trace: ((step: VerificationStep) => void) | undefined
  /** Value of `{secret}`: the identity with which a token is being compared. */
  identity: Identity | undefined
  readonly #rules: Declaration['body']
  #body: EventBody | undefined
  #query: URLSearchParams | undefined

  constructor(call: ProviderCall, rules: Declaration['body'], meter?: CountUnits, trace?: CallView['trace']) {
    this.call = call
    this.#rules = rules
    this.meter = meter
    this.trace = trace
  }

  body(): EventBody {
    this.#body ??= readDeclaredBody(this.call, this.#rules, this.meter)
    return this.#body
  }

  /** Returns undefined if the body is no form or cannot be decoded. */
  form(): FormFields | undefined {
    return readForm(this.call, this.meter)
  }

  /** Returns undefined if the parameter is missing or repeated, so that no value is verified while another is used. */
  query(name: string): string | undefined {
    const url = this.call.request?.url ?? ''
    if (this.#query === undefined) {
      const mark = url.length <= urlCharsMax ? url.indexOf('?') : -1
      this.meter?.(url.length)
      this.#query = new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1).replace(/#.*$/s, ''))
    }
    const values = this.#query.getAll(name)
    return values.length === 1 ? values[0] : undefined
  }
}

/** Maximum length of a signed URL. */
export const urlCharsMax = 8192

/** Place of a value in a call. Exactly one member is set. */
export interface Place {
  readonly header?: string | undefined
  readonly query?: string | undefined
  readonly json?: string | undefined
}

export type HeaderTable = Readonly<Record<string, ProviderHeader>>

const absent: HeaderReading = { kind: 'absent' }

/** Returns a function that reads the value at a place. A number or boolean in the body is read as text; an object counts as absent. */
export function compilePlace(
  { header, query, json }: Place,
  headers: HeaderTable,
): (view: CallView) => HeaderReading {
  if (header !== undefined) {
    const named = { names: headers[header]?.names ?? [] }
    return ({ call }) => readHeader(call.headers, named)
  }
  if (query !== undefined) return (view) => present(view.query(query))
  const read = memberReader(json ?? '')
  return (view) => {
    const body = view.body()
    return body.kind === 'object' ? present(textOf(read(body.value))) : absent
  }
}

function present(value: string | undefined): HeaderReading {
  return value === undefined || value === '' ? absent : { kind: 'value', value }
}

/** Returns a value as text: '' for null and undefined; undefined for values without an exact text, such as objects and fractions. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : undefined
}

/** Number of passes over a parsed body: decode, measure the depth, parse, find repeated members. */
const parsePasses = 4

/** JSON must satisfy `readEventBody`; a form is recognized by its Content-Type. Never throws. */
function readDeclaredBody(
  call: ProviderCall,
  rules: Declaration['body'],
  meter: CountUnits | undefined,
): EventBody {
  const { body } = call
  if (rules.form !== undefined && isForm(call)) {
    meter?.(body.length * (1 + parsePasses))
    const { jsonField } = rules.form
    if (jsonField === undefined) {
      const fields = readForm(call, meter)
      return fields === undefined ? refused('body_not_json') : formObject(fields)
    }
    const field = formField(decodeUtf8(body) ?? '', jsonField)
    return field === undefined ? refused('body_not_json') : readEventText(field)
  }
  if (rules.json === undefined) return refused('body_not_json')
  meter?.(body.length * parsePasses)
  const { arrayAs } = rules.json
  return arrayAs === undefined ? readEventBody(body) : readArrayBody(body, arrayAs)
}

function isForm({ headers }: ProviderCall): boolean {
  return /^application\/x-www-form-urlencoded *(;|$)/i.test(headers.get('content-type') ?? '')
}

/** Parses a form. Returns undefined for another Content-Type, for more than 1000 fields, and for undecodable text. */
function readForm(call: ProviderCall, meter: CountUnits | undefined): FormFields | undefined {
  if (!isForm(call)) return undefined
  meter?.(call.body.length)
  const text = decodeUtf8(call.body)
  return text === undefined ? undefined : parseForm(text)
}

/** Reads a body that may be an array. An array becomes the member `name` of the payload. */
function readArrayBody(body: Uint8Array, name: string): EventBody {
  const text = decodeUtf8(body)
  if (text === undefined || !/^[ \t\r\n]*\[/.test(text)) return readEventBody(body)
  const read = readEventText(`{${JSON.stringify(name)}:${text}}`)
  // Refuses text such as `[1],"a":2`, which is not an array, but would make an object with two members.
  const isArray = read.kind === 'object' && Object.keys(read.value).length === 1
  return read.kind === 'refused' || isArray ? read : refused('body_not_json')
}

/** `text` is forwarded as received. `value` is only for reading fields. */
export type EventBody =
  | { readonly kind: 'object'; readonly text: string; readonly value: JsonObject }
  | Refused

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Parses one JSON object in UTF-8, at most `jsonDepthMax` levels deep. Refuses a byte order mark, as RFC 8259 section 8.1 allows, because
 * it breaks the text when it is inserted into other JSON; and a member repeated at the top level, because parsers disagree on which value
 * is valid.
 */
export function readEventBody(body: Uint8Array): EventBody {
  const text = decodeUtf8(body)
  return text === undefined ? refused('body_not_json') : readEventText(text)
}

/** Parses text under the same rules as `readEventBody`. */
export function readEventText(text: string): EventBody {
  if (isNestedTooDeep(text)) return refused('body_too_deep')
  const value = parseObject(text)
  if (value === undefined) return refused('body_not_json')
  return hasRepeatedMember(text, value) ? refused('body_ambiguous') : { kind: 'object', text, value }
}

/** Keeps a byte order mark. Returns undefined for invalid bytes. */
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
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Ignores inherited members. */
export function memberAt(body: JsonObject, ...path: readonly string[]): unknown {
  let value: unknown = body
  for (const name of path) {
    if (!isJsonObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** Returns a function that reads the member at a dotted path, like `memberAt`. In an array, a number is the position of an element. */
export function memberReader(dottedPath: string): (body: JsonObject) => unknown {
  const path = dottedPath.split('.')
  const [name = ''] = path
  if (path.length === 1) return (body) => (Object.hasOwn(body, name) ? body[name] : undefined)
  return (body) => {
    let value: unknown = body
    for (const each of path) {
      if (isJsonObject(value)) value = Object.hasOwn(value, each) ? value[each] : undefined
      else if (Array.isArray(value) && /^[0-9]{1,6}$/.test(each)) value = value[Number(each)]
      else return undefined
    }
    return value
  }
}

/** Ignores inherited members. Returns undefined if the value is not text. */
export function textAt(body: JsonObject, ...path: readonly string[]): string | undefined {
  const value = memberAt(body, ...path)
  return typeof value === 'string' ? value : undefined
}
