import { pageItemsDefault, pageItemsMax } from '#internal/base/index.ts'
import {
  integerParam,
  type JsonSchema,
  mayGrow,
  named,
  type Operation,
  type Param,
  type PublicRoute,
  paramsInDocument,
  type RoomRoute,
  readParams,
  textParam,
} from '#internal/http/index.ts'
import {
  acceptedProviderNames,
  type ProviderName,
  parseProviderName,
  providerNames,
} from '#internal/tenants/index.ts'
import { eventTables } from './built-in/tables.ts'
import { type CatalogueEntry, catalogueOf } from './catalogue.ts'

/** Normalized types of all providers in alphabetical order. */
export const eventCatalogue: readonly CatalogueEntry[] = catalogueOf(Object.values(eventTables))

const path = '/v1/event-types'
const version = { type: 'string', pattern: '^[0-9]+\\.[0-9]+\\.[0-9]+$' }
const since = { ...version, description: 'First version of Latchkey that has it.' }
const providerName = {
  type: 'string',
  enum: providerNames,
  ...mayGrow,
  description: 'Neutral name of the provider.',
}
const memberPath = { type: 'string', description: 'Path of the member in `payload`, with dots.' }

const conditionOf = (field: string, schema: JsonSchema) => ({
  type: 'object',
  required: ['path', field],
  properties: { path: memberPath, [field]: schema },
})
const valueCondition = conditionOf('values', {
  type: 'array',
  minItems: 1,
  items: { type: ['string', 'number', 'boolean'] },
  description: 'The member has one of these values.',
})
const presenceCondition = conditionOf('isPresent', {
  type: 'boolean',
  description: 'Whether the member is present; null counts as absent.',
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
  required: ['providerRawType', 'conditions', 'unless', 'since'],
  properties: {
    providerRawType: { type: 'string', maxLength: 255, description: 'The provider’s name of the type.' },
    conditions: {
      type: 'array',
      items: named('EventTypeCondition', condition),
      description: 'All must hold.',
    },
    unless: {
      type: 'array',
      items: { type: 'string', maxLength: 255 },
      description: 'Types of the same raw type that apply instead where their conditions hold, too.',
    },
    since,
  },
}

const ofProvider = {
  type: 'object',
  required: ['provider', 'since', 'sources', 'providerRawType', 'example'],
  properties: {
    provider: providerName,
    since,
    sources: {
      type: 'array',
      items: named('EventTypeSource', source),
      description: 'Any of them leads to the type. Several can have the same raw type.',
    },
    providerRawType: { type: 'string', maxLength: 255, description: 'Raw type of `example`.' },
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

/** Query parameter: a built-in provider by its neutral or vendor’s name, or a declared one, parsed as the neutral name. */
export function providerNameParam(description: string): Param<ProviderName> {
  const schema = { type: 'string', enum: [...acceptedProviderNames], ...mayGrow }
  return { description, schema, parse: parseProviderName }
}

const query = {
  provider: {
    ...providerNameParam('Only types of this provider, by its neutral or its vendor’s name.'),
    examples: { card: { value: 'card' } },
  },
  type: textParam('Only this whole normalized type. The list is empty if the type is not listed.', {
    charsMax: 255,
  }),
  after: textParam('`next` of the page before: only types behind this one in alphabetical order.', {
    charsMax: 255,
  }),
  limit: {
    ...integerParam('Types per page.', { minimum: 1, maximum: pageItemsMax, default: pageItemsDefault }),
    examples: { card: { value: 1 } },
  },
}

const operation: Operation = {
  id: 'listEventTypes',
  tag: 'events',
  summary: 'Normalized event types and the raw types that lead to them',
  description:
    'In alphabetical order, with pages by `after`. `generic` has no types of its own: its dotted lowercase types are kept, and a test of the callback has the type `latchkey.test`, by which alone it cannot be recognized: see `latchkey-origin` among the `headers` of an event. A raw type that is not listed becomes `<provider>.<raw type>` in dotted lowercase; with `codehost`, `codehost.<event>.<action>` if the payload has an action. The answer is the same for all callers and changes with the version only: it can be cached for five minutes, and has no `ETag`.',
  parameters: paramsInDocument(query),
  answers: {
    200: {
      description: 'The types.',
      headers: ['Cache-Control'],
      schema: named('EventTypeList', {
        type: 'object',
        required: ['items'],
        properties: {
          items: { type: 'array', maxItems: pageItemsMax, items: EventType },
          next: {
            type: 'string',
            description: 'Value of `after` for the next page; absent on the last page.',
          },
        },
      }),
      examples: {
        card: {
          summary: 'The first type of one provider',
          value: JSON.parse(pageJson(typesOf('card').map(rowOf), '', 1)),
        },
      },
    },
  },
  errors: ['invalid_request', 'internal'],
}

/** Route of the catalogue of event types, which needs no authentication. */
export const eventTypeRoutes: readonly RoomRoute<undefined, PublicRoute>[] = [
  {
    method: 'GET',
    path,
    operation,
    bind() {
      const all = eventCatalogue.map(rowOf)
      const ofProviders = new Map<ProviderName, ReturnType<typeof rowOf>[]>(
        providerNames.map((name) => [name, typesOf(name).map(rowOf)]),
      )
      return {
        method: 'GET',
        path,
        access: 'public',
        bodyBytesMax: 0,
        handle(call) {
          const read = readParams(call.request.url, query)
          if (read.kind === 'error') return read
          const { provider, type, after = '', limit = pageItemsDefault } = read.values
          const listed = provider === undefined ? all : (ofProviders.get(provider) ?? [])
          const rows = type === undefined ? listed : listed.filter((each) => each.type === type)
          return {
            kind: 'answer',
            status: 200,
            outcome: 'event_types',
            body: pageJson(rows, after, limit),
            headers: { 'Cache-Control': 'public, max-age=300' },
          }
        },
      }
    },
  },
]

/** Writes the JSON text of an entry, once per process. */
function rowOf(entry: CatalogueEntry) {
  return { type: entry.type, text: JSON.stringify(entry) }
}

/** Returns a page with the types after `after` as JSON text. */
function pageJson(rows: readonly ReturnType<typeof rowOf>[], after: string, limit: number): string {
  const start = rows.findIndex(({ type }) => type > after)
  const page = start < 0 ? [] : rows.slice(start, start + limit)
  const last = page.at(-1)
  const next = last === undefined || last === rows.at(-1) ? '' : `,"next":${JSON.stringify(last.type)}`
  return `{"items":[${page.map(({ text }) => text).join(',')}]${next}}`
}

/** Returns the types of a provider. Each entry lists this provider alone. */
export function typesOf(provider: string): readonly CatalogueEntry[] {
  return eventCatalogue.flatMap((entry) => {
    const providers = entry.providers.filter((each) => each.provider === provider)
    return providers.length === 0 ? [] : [{ ...entry, providers }]
  })
}
