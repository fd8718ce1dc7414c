import {
  integerParam,
  type JsonSchema,
  mayGrow,
  named,
  type Operation,
  type PublicRoute,
  paramsInDocument,
  type RoomRoute,
  readParams,
  textParam,
  wordParam,
} from '#internal/http/index.ts'
import { acceptedProviderNames, neutralProviderName, providerNames } from '#internal/tenants/index.ts'
import { type CatalogueEntry, catalogueOf } from './catalogue.ts'
import { eventTables } from './providers/registry.ts'

/** Normalized types of all providers in alphabetical order. */
export const eventCatalogue: readonly CatalogueEntry[] = catalogueOf(eventTables)

const path = '/v1/event-types'
const version = { type: 'string', pattern: '^[0-9]+\\.[0-9]+\\.[0-9]+$' }
const since = { ...version, description: 'First version of Latchkey that has it.' }
const providerName = {
  ...{ type: 'string', enum: providerNames, ...mayGrow },
  description: 'Neutral name of the provider.',
}
const memberPath = { type: 'string', description: 'Path of the member in `payload`, with dots.' }

const conditionOf = (field: string, schema: JsonSchema) => ({
  type: 'object',
  required: ['path', field],
  properties: { path: memberPath, [field]: schema },
})
const valueCondition = conditionOf('values', {
  ...{ type: 'array', minItems: 1, items: { type: ['string', 'number', 'boolean'] } },
  description: 'The member has one of these values.',
})
const presenceCondition = conditionOf('isPresent', {
  ...{ type: 'boolean', description: 'Whether the member is present; null counts as absent.' },
})
const condition = {
  description: 'Condition on the payload.',
  oneOf: [
    named('EventTypeValueCondition', valueCondition),
    named('EventTypePresenceCondition', presenceCondition),
  ],
}

const source = {
  type: 'object',
  required: ['providerRawType', 'conditions', 'isDefault', 'since'],
  properties: {
    providerRawType: { type: 'string', maxLength: 255, description: 'The provider’s name of the type.' },
    conditions: {
      type: 'array',
      items: named('EventTypeCondition', condition),
      description: 'All must hold.',
    },
    isDefault: {
      type: 'boolean',
      description:
        'True if the raw type leads to other types under these conditions and further ones, and to this type only if none of those applies.',
    },
    since,
  },
}

const ofProvider = {
  type: 'object',
  required: ['provider', 'since', 'sources', 'example'],
  properties: {
    provider: providerName,
    since,
    sources: { type: 'array', items: named('EventTypeSource', source) },
    example: { type: 'object', description: '`payload` of such an event.' },
  },
}

const EventType = named('EventType', {
  type: 'object',
  required: ['type', 'description', 'since', 'providers'],
  properties: {
    type: { type: 'string', maxLength: 255, description: 'Normalized type, as in `Event`.' },
    description: { type: 'string' },
    since,
    providers: { type: 'array', minItems: 1, items: named('EventTypeOfProvider', ofProvider) },
  },
})

const pageSizeMax = 100
const pageSizeDefault = 50

const query = {
  provider: {
    ...wordParam('Only types of this provider, by its neutral or its vendor’s name.', acceptedProviderNames),
    examples: { card: { value: 'card' } },
  },
  after: textParam('`next` of the page before: only types behind this one in alphabetical order.', {
    charsMax: 255,
  }),
  limit: {
    ...integerParam('Types per page.', { minimum: 1, maximum: pageSizeMax, default: pageSizeDefault }),
    examples: { card: { value: 1 } },
  },
}

const exampleType = 'payment.succeeded'
const example = eventCatalogue
  .filter(({ type }) => type === exampleType)
  .map((entry) => ({ ...entry, providers: entry.providers.slice(0, 1) }))

const operation: Operation = {
  ...{
    id: 'listEventTypes',
    tag: 'events',
    summary: 'Normalized event types and the raw types that lead to them',
  },
  description:
    'In alphabetical order, with pages by `after`. `generic` has no types of its own: its dotted lowercase types are kept, and a test of the callback has the type `latchkey.test`. A raw type that is not listed becomes `<provider>.<raw>`, in dotted lowercase. Cases of a raw type are tried in a fixed order; the first whose conditions hold applies.',
  parameters: paramsInDocument(query),
  answers: {
    200: {
      description: 'The types.',
      schema: named('EventTypeList', {
        type: 'object',
        required: ['items'],
        properties: {
          items: { type: 'array', maxItems: pageSizeMax, items: EventType },
          next: {
            type: 'string',
            description: 'Value of `after` for the next page; absent on the last page.',
          },
        },
      }),
      examples: {
        card: { summary: 'One type of one provider', value: { items: example, next: exampleType } },
      },
    },
  },
  errors: ['invalid_request', 'internal'],
}

/** Route of the catalogue of event types, which needs no authentication. */
export const eventTypeRoutes: readonly RoomRoute<undefined, PublicRoute>[] = [
  {
    ...{ method: 'GET', path, operation },
    bind() {
      const all = eventCatalogue.map(rowOf)
      const ofProviders = new Map(providerNames.map((name) => [name, typesOf(name).map(rowOf)]))
      return {
        ...{ method: 'GET', path, access: 'public', bodyBytesMax: 0 },
        handle(call) {
          const read = readParams(call.request.url, query)
          if (read.kind === 'error') return read
          const { provider = '', after = '', limit = pageSizeDefault } = read.values
          const name = neutralProviderName(provider)
          const rows = (name === undefined ? undefined : ofProviders.get(name)) ?? all
          return {
            ...{
              kind: 'answer',
              status: 200,
              outcome: 'event_types',
              body: pageOf(rows, after, limit),
            },
            headers: { 'Cache-Control': 'public, max-age=300' },
          }
        },
      }
    },
  },
]

/** A type with its JSON text, which is written once per process. */
interface CatalogueRow {
  readonly type: string
  readonly text: string
}

function rowOf(entry: CatalogueEntry): CatalogueRow {
  return { type: entry.type, text: JSON.stringify(entry) }
}

/** Returns a page of at most `limit` types behind `after` as JSON text. */
function pageOf(rows: readonly CatalogueRow[], after: string, limit: number): string {
  const start = rows.findIndex(({ type }) => type > after)
  const page = start < 0 ? [] : rows.slice(start, start + limit)
  const last = page.at(-1)
  const next = last === undefined || last === rows.at(-1) ? '' : `,"next":${JSON.stringify(last.type)}`
  return `{"items":[${page.map(({ text }) => text).join(',')}]${next}}`
}

/** Returns the types of a provider, without the other providers. */
export function typesOf(provider: string): readonly CatalogueEntry[] {
  return eventCatalogue.flatMap((entry) => {
    const providers = entry.providers.filter((each) => each.provider === provider)
    return providers.length === 0 ? [] : [{ ...entry, providers }]
  })
}
