import { type EventBody, type HeaderReading, memberReader, readHeader } from '../normalize.ts'
import type { ProviderCall, ProviderHeader } from '../provider.ts'
import { type BodyRules, type FormFields, readDeclaredBody, readForm } from './body.ts'
import type { Identity } from './keys.ts'

/** Counts units of work: bytes and characters that are read. Set by tests, which show the bound `workMax`. */
export type Meter = (units: number) => void

/**
 * Bound on the work of `verify`, `normalize` and `answer` together, in bytes and characters that are read. Linear in the body's size,
 * whatever the declaration.
 */
export function workMax(bodyBytes: number): number {
  return 64 * (bodyBytes + templateTextCharsMax)
}

/** Maximum characters that a template may add to the body's size. */
export const templateTextCharsMax: number = 65_536

/** Facts that a verification found on its way, in their order. */
export type VerificationStep =
  /** The scheme at this position of the declaration was chosen by the signature that the call has. */
  | { readonly kind: 'chosen'; readonly position: number; readonly value: string }
  /** Signatures of the scheme in that value, and how many of them could be decoded. */
  | { readonly kind: 'parsed'; readonly texts: readonly string[]; readonly decodedCount: number }
  /** Signed time as it was sent; undefined if it is no time of the declared unit. */
  | { readonly kind: 'timed'; readonly text: string; readonly atMs: number | undefined }
  /** Text that the signature must cover. */
  | { readonly kind: 'joined'; readonly content: readonly (string | Uint8Array)[] }

/** Called with each step. Set by `traceCall` only. */
export type Trace = (step: VerificationStep) => void

/** What a call contains, parsed at most once. */
export class CallView {
  readonly call: ProviderCall
  readonly meter: Meter | undefined
  readonly trace: Trace | undefined
  /** Identity with which a token is compared at the moment, for `{secret}`. */
  identity: Identity | undefined
  readonly #rules: BodyRules
  #body: EventBody | undefined
  #query: URLSearchParams | undefined

  constructor(call: ProviderCall, rules: BodyRules, meter?: Meter, trace?: Trace) {
    this.call = call
    this.#rules = rules
    this.meter = meter
    this.trace = trace
  }

  /** Returns the parsed body. */
  body(): EventBody {
    this.#body ??= readDeclaredBody(this.call, this.#rules, this.meter)
    return this.#body
  }

  /** Returns the fields of a form body; undefined if the body is no form or cannot be decoded. */
  form(): FormFields | undefined {
    return readForm(this.call, this.meter)
  }

  /** Returns a query parameter; undefined if it is missing or repeated, so that no value is verified while another one is used. */
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

/** Maximum characters of a URL that a signature covers. */
export const urlCharsMax = 8192

/** Reads a text of a call. */
export type Read = (view: CallView) => HeaderReading

/** Place of a text in a call. Exactly one is set. */
export interface Place {
  readonly header?: string | undefined
  readonly query?: string | undefined
  readonly json?: string | undefined
}

/** Headers of a declaration by key. */
export type HeaderTable = Readonly<Record<string, ProviderHeader>>

const absent: HeaderReading = { kind: 'absent' }

/** Compiles the reading of a text. A number or boolean of the body is read as its text; a value that is an object is absent. */
export function compilePlace({ header, query, json }: Place, headers: HeaderTable): Read {
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

/** Returns a scalar JSON value as text; '' for null and undefined; undefined for values without an exact text. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : undefined
}
