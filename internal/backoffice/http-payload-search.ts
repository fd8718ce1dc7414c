import { Type as t } from '@sinclair/typebox'
import { pageItemsDefault, pageItemsMax } from '#internal/base/index.ts'
import { searchedPayloadBytesMax } from '#internal/events/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { searchFilterFields } from './derived-filters.ts'
import { eventId } from './http-answers.ts'
import type { SharedApi } from './http-apis.ts'
import { EventSummary } from './http-event-answers.ts'
import { idSchema, readTimes, timestamp } from './http-params.ts'
import { answer, described, listOf, objectOf, text, time, type ValueOf, whole } from './http-schemas.ts'
import { defined, invalid } from './outcome.ts'
import {
  type PayloadTerm,
  payloadPathCharsMax,
  payloadPathPattern,
  searchesPerMinute,
  termChars,
} from './payload-search.ts'

const strict = { additionalProperties: false }

/** Matching events, and the progress of the search. */
export const PayloadMatches = answer(
  'PayloadMatches',
  objectOf(
    {
      items: listOf(EventSummary),
      examinedCount: described('Events whose payload was searched.', whole(2_000)),
      skippedCount: described(
        `Events that were not searched: their payload has expired or is larger than ${searchedPayloadBytesMax / 2 ** 20} MiB.`,
        whole(3),
      ),
      searchedTo: described('Events received since then were searched.', time('2026-11-21T06:12:40.000Z')),
    },
    { next: described('Pass as `after` to continue; absent where the search is complete.', text(eventId)) },
  ),
)
export type PayloadMatches = ValueOf<typeof PayloadMatches>

const searchFields = {
  from: timestamp('Received then or later.'),
  to: t.Optional(timestamp('Received earlier. Default: now.')),
  text: t.Optional(
    t.String({
      minLength: termChars.min,
      maxLength: termChars.max,
      description:
        'Text in the JSON of the payload, in the same case. Escape sequences of JSON are taken into account.',
    }),
  ),
  path: t.Optional(
    t.String({
      pattern: payloadPathPattern,
      minLength: 1,
      maxLength: payloadPathCharsMax,
      expected: 'names separated by dots, such as data.object.id',
      description:
        'Names separated by dots, such as `data.object.id`; `$.` in front is allowed. A number is the place in an array: `lines.0.sku` or `lines[0].sku`. Only together with `equals`, in place of `text`.',
    }),
  ),
  equals: t.Optional(
    t.String({
      maxLength: termChars.max,
      description:
        'Value at the path: a whole text, or a number, `true`, `false` or `null`. Numbers are compared as JavaScript compares them.',
    }),
  ),
  ...searchFilterFields,
  after: t.Optional(idSchema('evt', { description: '`next` of the previous page.' })),
  limit: t.Optional(
    t.Integer({
      minimum: 1,
      maximum: pageItemsMax,
      description: `Maximum matches. Default: ${pageItemsDefault}.`,
    }),
  ),
}

const searchTenant = { tenantId: t.Optional(idSchema('ten', { description: 'Id of the tenant.' })) }

export function searchPayloads<Parts>(api: SharedApi<Parts>) {
  const isPublic = api.name === 'public'
  // The public API takes the tenant from the key. With the type assertion, the bodies of both APIs have the same type.
  const ofTenant = isPublic
    ? ({} as typeof searchTenant)
    : ({ tenantId: idSchema('ten', { description: 'Id of the tenant.' }) } as unknown as typeof searchTenant)
  return api.route({
    method: 'POST',
    path: `${api.base}/event-searches`,
    id: 'searchPayloads',
    tag: 'events',
    answer: PayloadMatches,
    errors: ['too_many_searches'],
    summary: 'Search the payloads of events',
    right: 'readPayloads',
    description: `Finds a text, or a value at a path, in the payloads as received, newest first. A page examines at most 2 000 events and 16 MiB, and stops after half a second, at the end of the statement then in progress; \`searchedTo\` says how far it got, and \`next\` continues. Each page is recorded in the audit log, without the searched text. In each process a caller has ${searchesPerMinute} pages a minute, one at a time.`,
    answerText: 'Matches, and how far the search got.',
    body: t.Object({ ...ofTenant, ...searchFields }, strict),
    example: {
      ...(isPublic ? {} : { tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs' }),
      from: '2026-11-20T00:00:00Z',
      path: 'data.object.id',
      equals: 'ch_1Pq0',
    },
    async act({ backoffice, actor, tenantId, body }) {
      const times = readTimes({ from: body.from, to: body.to })
      if (times.kind !== 'ok') return times
      const term = termOf(body)
      if (term === undefined) return invalid('Send either "text", or "path" and "equals"')
      const { tenantId: named = tenantId, from: _from, to: _to, text: _text, ...others } = body
      const { path: _path, equals: _equals, ...rest } = others
      const { from: fromMs, to: toMs } = times.value
      const provider = rest.provider === undefined ? undefined : parseProviderName(rest.provider)
      const filter = defined({ ...rest, provider })
      return backoffice.events.search(actor, { ...filter, tenantId: named, fromMs, toMs, term })
    },
  })
}

/** Returns what a request searches for: a text, or a value at a path. Undefined unless the request has exactly one of the two. */
function termOf({
  text: sought,
  path,
  equals,
}: {
  readonly text?: string
  readonly path?: string
  readonly equals?: string
}): PayloadTerm | undefined {
  if (sought !== undefined)
    return path === undefined && equals === undefined ? { kind: 'text', text: sought } : undefined
  return path === undefined || equals === undefined ? undefined : { kind: 'path', path, equals }
}
