import { type Condition, type LookupCase, typeLookup } from '../catalogue.ts'
import {
  type EventId,
  type HeaderReading,
  isDottedType,
  type JsonObject,
  makeEvent,
  memberReader,
  readEventId,
  readHeader,
  readHeaderEventId,
  refused,
  unlistedType,
} from '../normalize.ts'
import type { Normalization } from '../provider.ts'
import { type CallView, compilePlace, type HeaderTable } from './call-view.ts'
import { bytesOf, compileContent, isRefused } from './content.ts'
import { sha256 } from './encoding.ts'
import type { Declaration, DeclaredCondition } from './schema.ts'
import type { CompiledScheme } from './scheme.ts'
import { templateParts } from './template.ts'
import { parseTime, readTime } from './time.ts'

/** Normalizes a verified call. Never throws. */
export type Normalize = (view: CallView) => Normalization

type IdPlace = Declaration['event']['id'][number]

const absent: HeaderReading = { kind: 'absent' }

/** Compiles `event` and `types` of a declaration. */
export function compileEvent(
  declaration: Declaration,
  headers: HeaderTable,
  schemes: readonly CompiledScheme[],
): Normalize {
  const { event } = declaration
  const idOf = compileId(declaration, headers, schemes)
  const type = compileType(declaration, headers)
  const times = (event.occurredAt ?? []).map((each) => compileTimeOfEvent(each, headers))
  return (view) => {
    const idHeader = idOf.header(view)
    const texts = type.readHeaders(view)
    if (idHeader.kind === 'conflict' || texts === 'conflict') return refused('headers_conflict')
    const early = idOf.early(idHeader)
    if (early?.kind === 'refused') return early
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

/** Returns the names of all headers with the event id, which are read as one. */
export function idHeaderNames({ event }: Declaration, headers: HeaderTable): string[] {
  return event.id.flatMap(({ header = [] }) => header).flatMap((key) => headers[key]?.names ?? [])
}

/** Returns whether a scheme signs the header with the event id. */
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
    /** Returns the id of a header before the body is parsed, if it can be nowhere else. */
    early: (reading: HeaderReading): EventId | undefined =>
      onlyHeaders ? readHeaderEventId(reading.kind === 'value' ? reading.value : '') : undefined,
    /**
     * Returns whether an unsigned header names a different event than the signed body. This prevents a replay: with an unsigned id header,
     * one captured call could become many events. A signed header may differ. Non-empty text and numbers count as ids.
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
    id(view: CallView, reading: HeaderReading, body: JsonObject): EventId {
      if (reading.kind === 'value') return readHeaderEventId(reading.value)
      let last = readEventId(undefined)
      for (const read of others) {
        last = read(view, body)
        if (last.kind === 'id' || last.cause !== 'event_id_missing') return last
      }
      return last
    },
  }
}

function compileBodyId(
  { json, hash, integer }: IdPlace,
  headers: HeaderTable,
): (view: CallView, body: JsonObject) => EventId {
  if (hash !== undefined) {
    const content = compileContent(hash, headers)
    return (view) => {
      const values = content.gather(view)
      if (isRefused(values)) return values
      const joined = content.join(view, values, '')
      if (isRefused(joined)) return joined
      const bytes = bytesOf(joined)
      view.meter?.(bytes.length)
      return { kind: 'id', id: sha256(bytes).toString('hex') }
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
    /** Reads all headers of the type; 'conflict' if one of them has different values. */
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

/** Returns a type of a validated declaration in the form of the tables of types. */
export function lookupCase({ raw, type, when = [] }: NonNullable<Declaration['types']>[number]): LookupCase {
  return { rawType: raw, type, conditions: when.map(conditionOf) }
}

/** Returns a condition of a validated declaration in the form of the tables of types. */
export function conditionOf({ path, values, isPresent = true }: DeclaredCondition): Condition {
  return values ? { path, values } : { path, isPresent }
}

type TimeOfEvent = (view: CallView, body: JsonObject) => number | undefined

function compileTimeOfEvent(
  { header, json, unit }: NonNullable<Declaration['event']['occurredAt']>[number],
  headers: HeaderTable,
): TimeOfEvent {
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

function firstTime(times: readonly TimeOfEvent[], view: CallView, body: JsonObject): number | undefined {
  for (const timeOf of times) {
    const atMs = timeOf(view, body)
    if (atMs !== undefined) return atMs
  }
  return undefined
}
