import { actorName, writeAudit } from '#internal/access/index.ts'
import { type Clock, parseEventId, receivedAtMsOf, Shares, setNewest } from '#internal/base/index.ts'
import { type EventFilter, scanPayloads } from '#internal/events/index.ts'
import { memberReader } from '#internal/providers/index.ts'
import type { SearchFilter } from './derived-filters.ts'
import type { PayloadMatches } from './http-payload-search.ts'
import { defined, invalid, invalidRange, type Outcome, ok, overloaded, readTypeFilter } from './outcome.ts'
import { type PageRequest, readPage } from './page.ts'
import type { SharedUseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

/** Text that a payload must contain, or value that it must have at a path. */
export type PayloadTerm =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'path'; readonly path: string; readonly equals: string }

export interface PayloadSearch extends PageRequest, SearchFilter {
  readonly tenantId: NonNullable<EventFilter['tenantId']>
  /** Inclusive start of the time of receipt, in milliseconds since the epoch. */
  readonly fromMs: number
  readonly toMs?: number | undefined
  readonly term: PayloadTerm
}

/** Minimum and maximum characters of a searched text or value. */
export const termChars = { min: 3, max: 200 }
/** Form of a path in a payload, as a pattern with the same meaning in every dialect of regular expressions. */
export const payloadPathPattern = '^([$][.])?[^.$]+([.][^.]+){0,15}$'
/** Maximum characters of a path. */
export const payloadPathCharsMax = 200

/** Maximum number of searches of payloads per minute, for each actor in each process. */
export const searchesPerMinute = 30
const minuteMs = 60_000
const actorsMax = 10_000
/** Maximum number of concurrent searches of payloads in a process, each with one connection at a time. */
const searchesUnderWayMax = 2

/** Maximum number of concurrent searches for a provider's id in several tenants in a process, each with one connection at a time. */
const wideSearchesMax = 1
/** Maximum number of connections that searches occupy. A pool that searches share with other reads must be larger. */
export const searchConnectionsMax = searchesUnderWayMax + wideSearchesMax

/** Limits searches in this process. Payloads: `searchesPerMinute` per actor, one at a time. In several tenants: `wideSearchesMax`. */
export class SearchTurns {
  readonly #clock: Clock
  readonly #minutes = new Map<string, { readonly endsAtMs: number; count: number }>()
  readonly #underWay = new Set<string>()
  readonly #wide = new Shares(wideSearchesMax)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Runs a search of several tenants. Refuses it if `wideSearchesMax` of these are running. */
  async runWide<Value>(actor: string, search: () => Promise<Outcome<Value>>): Promise<Outcome<Value>> {
    if (!this.#wide.take(1, actor)) return overloaded
    try {
      return await search()
    } finally {
      this.#wide.give(1, actor)
    }
  }

  async run<Value>(actor: string, search: () => Promise<Outcome<Value>>): Promise<Outcome<Value>> {
    const nowMs = this.#clock.now()
    const known = this.#minutes.get(actor)
    const minute = known && known.endsAtMs > nowMs ? known : { endsAtMs: nowMs + minuteMs, count: 0 }
    setNewest(this.#minutes, actor, minute, actorsMax)
    if (this.#underWay.has(actor)) return tooManySearches(anotherText, anotherRetryMs)
    if (minute.count >= searchesPerMinute) return tooManySearches(perMinuteText, minute.endsAtMs - nowMs)
    if (this.#underWay.size >= searchesUnderWayMax) return overloaded
    minute.count += 1
    this.#underWay.add(actor)
    try {
      return await search()
    } finally {
      this.#underWay.delete(actor)
    }
  }
}

const perMinuteText = `You may search payloads ${searchesPerMinute} times a minute in each process: wait as long as Retry-After says`
const anotherText = 'Another search of yours is running: wait until it ends'
/** Retry-After in ms while another search of the actor runs: the longest time that a search usually takes. */
const anotherRetryMs = 1_000

function tooManySearches(problem: string, retryAfterMs: number): Outcome<never> {
  return { kind: 'tooMany', code: 'too_many_searches', problem, retryAfterMs }
}

/**
 * Searches payloads as received, newest first, with bounded work per page. Requires the right to read payloads, since a search reveals what
 * is in a redacted field. Writes an audit entry before it returns, without the searched text or value, which can itself be a secret.
 */
export const search: SharedUseCase<PayloadSearch, PayloadMatches> = async (parts, actor, request) => {
  const { tenantId, fromMs, toMs, term, after: _after, limit: _limit, ...asked } = request
  const page = readPage(request, parseEventId)
  if (page.kind !== 'ok') return page
  if (toMs !== undefined && fromMs >= toMs) return invalidRange
  const typed = readTypeFilter(asked)
  if (typed.kind !== 'ok') return typed
  const matches = matcherOf(term)
  if (typeof matches === 'string') return invalid(matches, term.kind)
  const reached = await reachTenant(parts, actor, tenantId, 'readPayloads')
  if (reached.kind !== 'ok') return reached
  return await parts.searchTurns.run(actorName(actor), async () => {
    const { after, limit } = page.value
    const filter = { tenantId, fromMs, ...defined({ toMs, ...typed.value }) }
    const scan = await scanPayloads(parts.readPool, { filter, after, limit, matches }, parts.clock.now)
    const { events, examinedCount, skippedCount, examinedTo } = scan
    const detail = {
      from: new Date(fromMs).toISOString(),
      after,
      ...typed.value,
      ...(toMs !== undefined && { to: new Date(toMs).toISOString() }),
      ...(term.kind === 'path' ? { path: term.path } : { textChars: term.text.length }),
      examinedCount,
      matchedCount: events.length,
    }
    const entry = { actor: actorName(actor), action: 'payloads.searched', tenantId, detail } as const
    await writeAudit(parts.pool, entry, parts.clock.now())
    return ok({
      items: events,
      next: examinedTo,
      examinedCount,
      skippedCount,
      searchedToMs: examinedTo === undefined ? fromMs : receivedAtMsOf(examinedTo),
    })
  })
}

/** Returns a function that tests a payload, or a text that says why the term is invalid. */
export function matcherOf(term: PayloadTerm): ((payload: string) => boolean) | string {
  if (term.kind === 'text') {
    const { length } = term.text
    if (length < termChars.min || length > termChars.max)
      return `must have ${termChars.min} to ${termChars.max} characters`
    const forms = writtenForms(term.text)
    return (payload) => forms.some((form) => payload.includes(form))
  }
  const { path, equals } = term
  if (path.length > payloadPathCharsMax || !new RegExp(payloadPathPattern).test(path))
    return 'must be names separated by dots, such as data.object.id'
  const read = memberReader(path.replace(/^\$\./, '').replaceAll(/\[(\d{1,6})\]/g, '.$1'))
  return (payload) => isEqual(read(parsed(payload)), equals)
}

/** Returns the different ways in which JSON encoders escape a text. */
function writtenForms(text: string): readonly string[] {
  const escaped = JSON.stringify(text).slice(1, -1)
  const ascii = escaped.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  const slashed = (each: string) => each.replaceAll('/', '\\/')
  return [...new Set([text, escaped, ascii, slashed(escaped), slashed(ascii)])]
}

function parsed(payload: string): Readonly<Record<string, unknown>> {
  // Intake stores only JSON objects as payloads.
  return JSON.parse(payload) as Readonly<Record<string, unknown>>
}

/** Compares a JSON value with a searched text: numbers by their value, other values by their text. */
function isEqual(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value === text
  if (typeof value === 'number') return text.trim() !== '' && Number(text) === value
  return (typeof value === 'boolean' || value === null) && String(value) === text
}
