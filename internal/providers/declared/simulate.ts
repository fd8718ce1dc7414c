// Simulated calls of declared providers: the declaration, evaluated in reverse.
import { createHmac } from 'node:crypto'
import { type JsonObject } from '#internal/base/index.ts'
import { formMedia } from '../examples.ts'
import type { ProviderCall } from '../provider.ts'
import { CallView, type HeaderTable, memberReader, type Place } from './call.ts'
import { compileDeclaration } from './compile.ts'
import { bytesOf, compileContent, isRefused } from './content.ts'
import { idHeaderNames, lookupCase, typeLookup } from './event.ts'
import { compileHeaders } from './header-table.ts'
import { textsOf } from './jwt.ts'
import { hasPublicKeys, hmacHashOf, keyBytes } from './keys.ts'
import type { Declaration, Scheme, TimeUnit } from './schema.ts'
import type { DeclaredSample, RunningDeclaration } from './shipped-declarations.ts'
import { templateParts } from './template.ts'
import { defaultSignatureAgeMsMax } from './vectors.ts'

export interface DeclaredEvent {
  readonly id: string
  readonly sample: Pick<DeclaredSample, 'rawType' | 'payload'>
  readonly occurredAtMs: number
  readonly secret: string
}

const requestUrl = 'https://simulation.invalid/'

/** Finds a raw type and payload for a normalized type. Any other type counts as a raw type, with or without the prefix `<provider>.`. */
export function declaredSampleOf(
  { name, types = [], samples = [] }: RunningDeclaration,
  type: string,
): Pick<DeclaredSample, 'rawType' | 'payload'> {
  const recorded = samples.find((each) => each.type === type) ?? samples.find((each) => each.rawType === type)
  if (recorded) return recorded
  const lookup = typeLookup(types.map(lookupCase))
  // Prefers recorded payloads to an empty one, except payloads to which an earlier case of the raw type applies.
  const candidates = types
    .filter((each) => each.type === type)
    .flatMap((one) => {
      const bases = samples.filter(({ rawType }) => rawType === one.raw).map(({ payload }) => payload)
      return [...bases, {}].map((payload) => ({ rawType: one.raw, payload: fulfilled(one, payload) }))
    })
  const listed = candidates.find(({ rawType, payload }) => lookup(rawType, payload) === type) ?? candidates[0]
  if (listed) return listed
  const rawType = type.startsWith(`${name}.`) ? type.slice(name.length + 1) : type
  return { rawType, payload: {} }
}

function fulfilled(
  { when = [] }: NonNullable<Declaration['types']>[number],
  payload: JsonObject,
): JsonObject {
  const made = structuredClone(payload) as Record<string, unknown>
  for (const { path, values, isPresent = true } of when) {
    const before = memberReader(path)(made)
    if (values) setMember(made, path, values[0])
    else if (!isPresent) setMember(made, path, undefined)
    else if (before === undefined || before === null) setMember(made, path, 'simulated')
  }
  return made
}

/**
 * Writes a call as the vendor would. `isSigned` is true if the scheme is HMAC, token or Basic, and the signed text does not contain the
 * signature. Returns undefined if no call can make an event of this raw type, such as the confirmation of a subscription.
 */
export function simulateDeclared(declaration: Declaration, event: DeclaredEvent) {
  const provider = compileDeclaration(declaration)
  const keys = provider.prepare([event.secret])
  const makesEvent = (call: ProviderCall): boolean => {
    const made = provider.normalize(call)
    const isWanted = made.kind === 'event' && made.rawType === event.sample.rawType
    return isWanted && provider.confirmationUrl?.(call) === undefined
  }
  // The type can be in several places; the first that leads to the raw type applies.
  for (const place of declaration.event.type.from) {
    const plain = new Draft(declaration, event, place)
    if (!makesEvent(plain.call())) continue
    for (const scheme of declaration.signature.schemes) {
      const draft = new Draft(declaration, event, place)
      if (!draft.sign(scheme)) continue
      const call = draft.call()
      if (provider.verify(call, keys).kind === 'verified' && makesEvent(call))
        return { ...draft.parts(), isSigned: true }
    }
    return { ...plain.parts(), isSigned: false }
  }
  return undefined
}

class Draft {
  readonly #declaration: Declaration
  readonly #table: HeaderTable
  readonly #event: DeclaredEvent
  readonly #payload: Record<string, unknown>
  readonly #headers = new Headers()
  #url = requestUrl

  constructor(
    declaration: Declaration,
    event: DeclaredEvent,
    place: Declaration['event']['type']['from'][number],
  ) {
    this.#declaration = declaration
    this.#table = compileHeaders(declaration)
    this.#event = event
    this.#payload = structuredClone(event.sample.payload) as Record<string, unknown>
    this.#headers.set('content-type', declaration.body.json ? 'application/json' : formMedia)
    this.#writeId()
    this.#writeType(place)
    this.#writeTime()
  }

  parts() {
    return {
      headers: this.#headers,
      body: this.#body(),
      request: { method: 'POST', url: this.#url },
    }
  }

  call(): ProviderCall {
    const { occurredAtMs: nowMs } = this.#event
    return { ...this.parts(), settings: {}, nowMs, signatureAgeMsMax: defaultSignatureAgeMsMax }
  }

  /** Returns false if the scheme cannot be evaluated in reverse. */
  sign(scheme: Scheme): boolean {
    const [key] =
      hasPublicKeys(scheme) || scheme.algorithm === 'jwt'
        ? []
        : keyBytes(this.#event.secret, scheme.key ?? {})
    if (key === undefined) return false
    const { timestamp, when, requires = [], signs = '' } = scheme
    const time = timestamp ? timeText(this.#event.occurredAtMs, timestamp.unit) : ''
    if (timestamp?.header !== undefined) this.#setHeader(timestamp.header, time)
    if (timestamp?.json !== undefined)
      setMember(this.#payload, timestamp.json, timeValue(this.#event.occurredAtMs, timestamp.unit))
    if (when) this.#fill(when)
    for (const part of [signs, ...requires.flatMap(textsOf)].flatMap(templateParts)) {
      if (part.kind === 'header') this.#fill({ header: part.argument })
      if (part.kind === 'json') this.#fill({ json: part.argument })
    }
    for (const each of requires) {
      const text = this.#contentOf(textsOf(each)[0] ?? '', '')
      if (text === undefined) return false
      this.#put(each, text.toString())
    }
    const value = this.#signatureOf(scheme, key, time)
    if (value === undefined) return false
    this.#put(scheme.signature, value)
    return true
  }

  #signatureOf(scheme: Scheme, key: string | Uint8Array, time: string): string | undefined {
    const { algorithm, encoding = 'hex', signs = '' } = scheme
    const { prefix = '', pairs, list } = scheme.signature
    if (algorithm === 'token') return `${prefix}${Buffer.from(key).toString()}`
    if (algorithm === 'basic') return `Basic ${Buffer.from(key).toString('base64')}`
    const hash = hmacHashOf(algorithm)
    const content = this.#contentOf(signs, time)
    if (hash === undefined || content === undefined) return undefined
    const text = createHmac(hash, key).update(content).digest(encoding)
    if (list) return [time, text].join(list.separator)
    if (!pairs) return `${prefix}${text}`
    const { separator, assign, name } = pairs
    const timePair = scheme.timestamp?.pair
    const all = [...(timePair === undefined ? [] : [[timePair, time]]), [name, text]]
    return all.map((pair) => pair.join(assign)).join(separator)
  }

  /** Returns undefined if a part of the template is missing. */
  #contentOf(template: string, time: string): Buffer | undefined {
    const view = new CallView(this.call(), this.#declaration.body)
    const content = compileContent(template, this.#table, {
      idNames: idHeaderNames(this.#declaration, this.#table),
    })
    const values = content.gather(view)
    if (isRefused(values)) return undefined
    const joined = content.join(view, values, time)
    return isRefused(joined) ? undefined : Buffer.from(bytesOf(joined))
  }

  #writeId(): void {
    const { id } = this.#event
    for (const [index, { header = [], json, hash }] of this.#declaration.event.id.entries()) {
      const [key] = header
      if (key !== undefined) this.#setHeader(key, id)
      // If the payload has an id in further places, replaces it there as well, so that no place names another event.
      if (json !== undefined && (index === 0 || this.#has(json))) setMember(this.#payload, json, id)
      // If the id is a hash of the body, adds a unique member, which makes the hash unique.
      if (hash === undefined || index > 0) continue
      this.#payload[uniqueMember] = id
      for (const part of templateParts(hash))
        if (part.kind === 'header') this.#fill({ header: part.argument })
    }
  }

  #writeType({ header, json }: Declaration['event']['type']['from'][number]): void {
    const { action } = this.#declaration.event.type
    const { rawType } = this.#event.sample
    const joins = action?.joins === 'raw' ? action : undefined
    const at = joins ? rawType.lastIndexOf(joins.separator) : -1
    const [raw, second] =
      joins && at > 0 ? [rawType.slice(0, at), rawType.slice(at + joins.separator.length)] : [rawType]
    if (header !== undefined) this.#setHeader(header, raw)
    if (json !== undefined) setMember(this.#payload, json, raw)
    if (joins && second !== undefined) this.#put(joins, second)
  }

  #writeTime(): void {
    const { occurredAtMs } = this.#event
    for (const { header, json, unit } of this.#declaration.event.occurredAt?.slice(0, 1) ?? []) {
      if (header !== undefined) this.#setHeader(header, timeText(occurredAtMs, unit))
      if (json !== undefined) setMember(this.#payload, json, timeValue(occurredAtMs, unit))
    }
  }

  /** Gives a value to a place that has none. Any value is valid there. */
  #fill({ header, query, json }: Place): void {
    const isSet =
      (header !== undefined && this.#headers.has(this.#nameOf(header))) ||
      (json !== undefined && this.#has(json))
    if (!isSet) this.#put({ header, query, json }, this.#event.id)
  }

  #put({ header, query, json }: Place, text: string): void {
    if (header !== undefined) this.#setHeader(header, text)
    if (json !== undefined) setMember(this.#payload, json, text)
    if (query === undefined) return
    const url = new URL(this.#url)
    url.searchParams.set(query, text)
    this.#url = url.href
  }

  #setHeader(key: string, text: string): void {
    this.#headers.set(this.#nameOf(key), text)
  }

  #nameOf(key: string): string {
    return this.#table[key]?.names[0] ?? key
  }

  #has(path: string): boolean {
    const value = memberReader(path)(this.#payload)
    return value !== undefined && value !== null
  }

  #body(): Uint8Array {
    const { json, form } = this.#declaration.body
    const text = JSON.stringify(this.#payload)
    if (json) {
      const array = json.arrayAs === undefined ? undefined : this.#payload[json.arrayAs]
      return Buffer.from(
        Array.isArray(array) && Object.keys(this.#payload).length === 1 ? JSON.stringify(array) : text,
      )
    }
    const fields = new URLSearchParams()
    if (form?.jsonField !== undefined) fields.set(form.jsonField, text)
    else
      for (const [name, value] of Object.entries(this.#payload))
        for (const each of Array.isArray(value) ? value : [value]) fields.append(name, String(each))
    return Buffer.from(fields.toString())
  }
}

/** Name of the member that makes the hash of a body unique. */
const uniqueMember = 'simulation'

function timeText(atMs: number, unit: TimeUnit): string {
  return String(timeValue(atMs, unit))
}

function timeValue(atMs: number, unit: TimeUnit): number | string {
  if (unit === 'iso') return new Date(atMs).toISOString()
  return unit === 's' ? Math.floor(atMs / 1000) : atMs
}

/** Creates the objects on the path; undefined removes the member. */
function setMember(payload: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split('.')
  const last = names.pop() ?? ''
  let place: Record<string, unknown> = payload
  for (const name of names) {
    const inner = Object.hasOwn(place, name) ? place[name] : undefined
    const next = typeof inner === 'object' && inner !== null ? inner : {}
    if (next !== inner) define(place, name, next)
    place = next as Record<string, unknown>
  }
  if (value === undefined) delete place[last]
  else define(place, last, value)
}

/** Sets an own member, even one that is called `__proto__`. */
function define(place: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(place, name, { value, writable: true, enumerable: true, configurable: true })
}
