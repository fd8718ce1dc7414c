import { type JsonObject, parseTimestamp, timestampMsMax } from '#internal/base/index.ts'
import type { CatalogueCase, Condition, EventTypes } from '../catalogue.ts'
import { type Adapter, type ProviderCall, type ProviderEvent, type Refused, refused } from '../provider.ts'
import {
  type CallView,
  compilePlace,
  type HeaderReading,
  type HeaderTable,
  memberReader,
  readHeader,
} from './call.ts'
import { bytesOf, compileContent, isRefused } from './content.ts'
import type { Declaration, DeclaredCondition, TimeUnit } from './schema.ts'
import type { CompiledScheme } from './scheme.ts'
import { sha256 } from './signature.ts'
import { templateParts } from './template.ts'

const absent: HeaderReading = { kind: 'absent' }
const idMissing = refused('event_id_missing')

/** Compiles `event` and `types`. The normalization never throws. */
export function compileEvent(
  declaration: Declaration,
  headers: HeaderTable,
  schemes: readonly CompiledScheme[],
): (view: CallView) => ProviderEvent | Refused {
  const { event } = declaration
  const idOf = compileId(declaration, headers, schemes)
  const type = compileType(declaration, headers)
  const times = (event.occurredAt ?? []).map((each) => compileTimeOfEvent(each, headers))
  return (view) => {
    const idHeader = idOf.header(view)
    const texts = type.readHeaders(view)
    if (idHeader.kind === 'conflict' || texts === 'conflict') return refused('headers_conflict')
    const early = idOf.early(idHeader)
    if (typeof early === 'object') return early
    const body = view.body()
    if (body.kind === 'refused') return body
    if (idOf.isContradicted(view, idHeader, body.value)) return refused('headers_conflict')
    const { rawType, unlisted } = type.partsOf(texts, body.value)
    return makeEvent({
      id: early ?? idOf.id(view, idHeader, body.value),
      rawType,
      typeOf: (raw) => type.typeOf(raw, unlisted, body.value),
      occurredAtMs: firstTime(times, view, body.value),
      payload: body.text,
    })
  }
}

export function idHeaderNames({ event }: Declaration, headers: HeaderTable): string[] {
  return event.id.flatMap(({ header = [] }) => header).flatMap((key) => headers[key]?.names ?? [])
}

export function signsIdHeader(template: string | undefined, idKeys: readonly string[]): boolean {
  return templateParts(template ?? '').some(
    (part) => part.kind === 'id' || (part.kind === 'header' && idKeys.includes(part.argument)),
  )
}

function compileId(declaration: Declaration, headers: HeaderTable, schemes: readonly CompiledScheme[]) {
  const places = declaration.event.id
  const named = { names: idHeaderNames(declaration, headers) }
  const idKeys = places.flatMap(({ header = [] }) => header)
  const signing = schemes.filter((_, index) =>
    signsIdHeader(declaration.signature.schemes[index]?.signs, idKeys),
  )
  const onlyHeaders = places.every(({ header }) => header !== undefined)
  const others = places
    .filter(({ header }) => header === undefined)
    .map((place) => compileBodyId(place, headers))
  const jsonIds = places.flatMap(({ json }) => (json === undefined ? [] : [memberReader(json)]))
  return {
    header: ({ call }: CallView): HeaderReading =>
      named.names.length === 0 ? absent : readHeader(call.headers, named),
    /** If the event id can only be in a header, returns the id without parsing the body. */
    early: (reading: HeaderReading): string | Refused | undefined =>
      onlyHeaders ? readHeaderEventId(reading.kind === 'value' ? reading.value : '') : undefined,
    /**
     * Returns whether an unsigned header names a different event than the signed body. This prevents a replay: with an unsigned id header,
     * one captured call could become many events. A signed header may differ from the body. Non-empty texts and numbers count as ids.
     */
    isContradicted(view: CallView, reading: HeaderReading, body: JsonObject): boolean {
      if (reading.kind !== 'value' || jsonIds.length === 0) return false
      if (signing.some((scheme) => scheme.read(view).kind !== 'absent')) return false
      return jsonIds.some((read) => {
        const value = read(body)
        const isId = typeof value === 'number' || (typeof value === 'string' && value !== '')
        return isId && String(value) !== reading.value
      })
    },
    id(view: CallView, reading: HeaderReading, body: JsonObject): string | Refused {
      if (reading.kind === 'value') return readHeaderEventId(reading.value)
      let last: string | Refused = idMissing
      for (const read of others) {
        last = read(view, body)
        if (typeof last === 'string' || last.cause !== 'event_id_missing') return last
      }
      return last
    },
  }
}

function compileBodyId(
  { json, hash, integer }: Declaration['event']['id'][number],
  headers: HeaderTable,
): (view: CallView, body: JsonObject) => string | Refused {
  if (hash !== undefined) {
    const content = compileContent(hash, headers)
    return (view) => {
      const values = content.gather(view)
      if (isRefused(values)) return values
      const joined = content.join(view, values, '')
      if (isRefused(joined)) return joined
      const bytes = bytesOf(joined)
      view.meter?.(bytes.length)
      return sha256(bytes).toString('hex')
    }
  }
  const read = memberReader(json ?? '')
  return (_view, body) => {
    const value = read(body)
    return readEventId(integer && Number.isSafeInteger(value) ? String(value) : value)
  }
}

function compileType({ name, event: { type }, types = [] }: Declaration, headers: HeaderTable) {
  const { action, keepsDotted = false } = type
  const sources = type.from.map(({ header, json, text }) => ({
    read: header === undefined ? undefined : compilePlace({ header }, headers),
    valueOf: text === undefined ? memberReader(json ?? '') : () => text,
  }))
  const actionRead =
    action?.header === undefined ? undefined : compilePlace({ header: action.header }, headers)
  const actionOf = action?.json === undefined ? undefined : memberReader(action.json)
  const readers = [
    ...sources.flatMap(({ read }) => (read ? [read] : [])),
    ...(actionRead ? [actionRead] : []),
  ]
  const separator = action?.separator ?? ''
  const isRaw = action?.joins === 'raw'
  const lookup = typeLookup(types.map(lookupCase))
  return {
    /** Returns the values of the headers, or `conflict` if a header has different values under its names. */
    readHeaders(view: CallView): readonly string[] | 'conflict' {
      if (readers.length === 0) return noTexts
      const readings = readers.map((read) => read(view))
      return readings.some(({ kind }) => kind === 'conflict')
        ? 'conflict'
        : readings.map((reading) => (reading.kind === 'value' ? reading.value : ''))
    },
    partsOf(
      texts: readonly string[],
      body: JsonObject,
    ): {
      readonly rawType: unknown
      readonly unlisted: string
    } {
      let raw: unknown
      let next = 0
      for (const { read, valueOf } of sources) {
        const value = read ? texts[next] : valueOf(body)
        if (read) next += 1
        if (raw === undefined || raw === null || raw === '') raw = value
      }
      const second = actionOf ? actionOf(body) : actionRead && texts[next]
      if (typeof raw !== 'string' || raw === '' || typeof second !== 'string' || second === '') {
        return { rawType: raw, unlisted: '' }
      }
      const joined = `${raw}${separator}${second}`
      return isRaw ? { rawType: joined, unlisted: '' } : { rawType: raw, unlisted: joined }
    },
    typeOf: (raw: string, unlisted: string, body: JsonObject) =>
      lookup(raw, body) ??
      (keepsDotted && isDottedType(raw) ? raw : unlistedType(name, unlisted === '' ? raw : unlisted)),
  }
}

const noTexts: readonly string[] = []

export function lookupCase({ raw, type, when = [] }: NonNullable<Declaration['types']>[number]) {
  return { rawType: raw, type, conditions: when.map(conditionOf) }
}

export function conditionOf({ path, values, isPresent = true }: DeclaredCondition): Condition {
  return values ? { path, values } : { path, isPresent }
}

function compileTimeOfEvent(
  { header, json, unit }: NonNullable<Declaration['event']['occurredAt']>[number],
  headers: HeaderTable,
): (view: CallView, body: JsonObject) => number | undefined {
  if (header === undefined) {
    const read = memberReader(json ?? '')
    return (_view, body) => readTime(read(body), unit)
  }
  const read = compilePlace({ header }, headers)
  return (view) => {
    const reading = read(view)
    return reading.kind === 'value' ? parseTime(reading.value, unit) : undefined
  }
}

function firstTime(
  times: readonly ReturnType<typeof compileTimeOfEvent>[],
  view: CallView,
  body: JsonObject,
): number | undefined {
  for (const timeOf of times) {
    const atMs = timeOf(view, body)
    if (atMs !== undefined) return atMs
  }
  return undefined
}

/** Makes an event, or refuses an invalid id or type. */
export function makeEvent({
  id,
  rawType,
  typeOf,
  occurredAtMs,
  payload,
}: Pick<ProviderEvent, 'occurredAtMs' | 'payload'> & {
  readonly id: string | Refused
  readonly rawType: unknown
  typeOf(rawType: string): string
}): ProviderEvent | Refused {
  if (typeof id !== 'string') return id
  const raw = readRawType(rawType)
  if (raw === undefined) return refused('event_type_malformed')
  return { kind: 'event', sourceEventId: id, rawType: raw, type: typeOf(raw), occurredAtMs, payload }
}

/** Verifies and normalizes a call. Pure, but needs much CPU time for large bodies. Never throws. */
export function readCall<Keys>(
  provider: Adapter<Keys>,
  call: ProviderCall,
  keys: Keys,
): ProviderEvent | Refused {
  const verification = provider.verify(call, keys)
  return verification.kind === 'refused' ? verification : provider.normalize(call)
}

/** Maximum length of event ids and types. */
const labelCharsMax = 255
/** Postgres refuses control characters and lone surrogates. */
const isLabel = (text: string) =>
  text.length >= 1 &&
  text.length <= labelCharsMax &&
  !/[\u0000-\u001f\u007f-\u009f]/.test(text) &&
  text.isWellFormed()

/** Reads 1 to 255 characters without control characters. undefined, null and '' are missing; other invalid values are malformed. */
export function readEventId(value: unknown): string | Refused {
  if (value === undefined || value === null || value === '') return idMissing
  return typeof value === 'string' && isLabel(value) ? value : refused('event_id_malformed')
}

/** Refuses commas and spaces: a header that is sent twice, with ids `a` and `b`, is read as `a, b`, which is the id of no event. */
export function readHeaderEventId(value: string): string | Refused {
  return /[\s,]/.test(value) ? refused('event_id_malformed') : readEventId(value)
}

/** Reads an RFC 3339 time. Returns undefined for any other value and for years outside 1970 to 9999. */
export function readIsoTime(value: unknown): number | undefined {
  return typeof value === 'string' ? inRange(parseTimestamp(value) ?? -1) : undefined
}

/** Reads Unix seconds, also with a fraction. Returns undefined in the same cases as `readIsoTime`. */
export function readUnixSeconds(value: unknown): number | undefined {
  return typeof value === 'number' ? inRange(Math.round(value * 1000)) : undefined
}

function inRange(ms: number): number | undefined {
  return ms >= 0 && ms <= timestampMsMax ? ms : undefined
}

/** Returns `<provider>.<raw>` in lower case: `-` becomes `_`, and other special characters become dots. At most 255 characters. */
export function unlistedType(provider: string, rawType: string): string {
  const segments = rawType
    .toLowerCase()
    .replaceAll('-', '_')
    .split(/[^a-z0-9_]+/)
    .filter((segment) => segment !== '')
  if (segments.length === 0) segments.push('unknown')
  return [provider, ...segments].join('.').slice(0, labelCharsMax).replace(/\.$/, '')
}

/** Returns whether a type has two or more lowercase segments separated by dots. */
export function isDottedType(type: string): boolean {
  return type.length <= labelCharsMax && /^[a-z0-9_]+(\.[a-z0-9_]+)+$/.test(type)
}

/** Returns the raw type: `unknown` if it is missing (a signed event with an id is kept without a type), undefined if it is malformed. */
export function readRawType(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return 'unknown'
  return typeof value === 'string' && isLabel(value) ? value : undefined
}

/** Parses Unix seconds (1 to 12 digits), Unix milliseconds (1 to 15 digits) or RFC 3339, as `unit` says. */
export function parseTime(text: string, unit: TimeUnit): number | undefined {
  if (unit === 'iso') return readIsoTime(text)
  if (unit === 's') return /^[0-9]{1,12}$/.test(text) ? Number(text) * 1000 : undefined
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined
}

/** Reads a number of seconds or milliseconds, or an RFC 3339 text. */
export function readTime(value: unknown, unit: TimeUnit): number | undefined {
  if (unit === 'iso') return readIsoTime(value)
  return readUnixSeconds(unit === 'ms' && typeof value === 'number' ? value / 1000 : value)
}

/** Cases are tried in order. */
export function typeLookup(
  cases: readonly Pick<CatalogueCase, 'rawType' | 'type' | 'conditions'>[],
): EventTypes['typeOf'] {
  // A Map, since a raw type can be called `constructor`.
  const compiled = new Map<
    string,
    {
      readonly type: string
      applies(body: JsonObject): boolean
    }[]
  >()
  for (const { rawType, type, conditions } of cases) {
    const known = compiled.get(rawType) ?? []
    compiled.set(rawType, [...known, { type, applies: compileConditions(conditions) }])
  }
  return (rawType, body) => compiled.get(rawType)?.find(({ applies }) => applies(body))?.type
}

export function compileConditions(conditions: readonly Condition[]): (body: JsonObject) => boolean {
  const compiled = conditions.map((condition) => ({
    read: memberReader(condition.path),
    matches:
      'values' in condition
        ? (value: unknown) => condition.values.some((each) => each === value)
        : (value: unknown) => (value !== null) === condition.isPresent,
  }))
  return (body) => compiled.every(({ read, matches }) => matches(read(body) ?? null))
}
