import { type CatalogueEntry, conditionsText, eventCatalogue, typesOf } from '#internal/intake/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import { Card, Facts, PageHeader } from '../components/block.tsx'
import { choicesOf } from '../components/form.tsx'
import { JsonBlock } from '../components/json.tsx'
import { type Filter, listRow, Table } from '../components/list.tsx'
import { link, type PageRow, shown } from '../page.ts'

const path = '/event-types'

const fields = [
  {
    kind: 'text',
    name: 'search',
    label: 'Type',
    charsMax: 255,
    placeholder: 'payment, or part of a raw type',
  },
  { kind: 'choice', name: 'provider', label: 'Provider', none: 'Any', choices: choicesOf(providerNames) },
] as const satisfies readonly Filter[]

const pageSize = 100

/** Returns whether a type or one of its raw types contains a text, in any case. */
function matches({ type, providers }: CatalogueEntry, search: string): boolean {
  const text = search.toLowerCase()
  const rawTypes = providers.flatMap(({ sources }) => sources.map(({ providerRawType }) => providerRawType))
  return [type, ...rawTypes].some((each) => each.toLowerCase().includes(text))
}

/** List page of the normalized event types in alphabetical order. */
const eventTypesRow = listRow({
  ...{
    path,
    section: 'eventTypes',
    title: 'Event types',
    noun: 'types',
    fields,
    pageSize,
    hidesTenant: true,
  },
  lead: () =>
    'Normalized types and the raw types of each provider that lead to them. The same for all tenants.',
  load(_context, { search, provider, after }) {
    const found = (provider === undefined ? eventCatalogue : typesOf(provider)).filter(
      (entry) =>
        (after === undefined || entry.type > after) && (search === undefined || matches(entry, search)),
    )
    const items = found.slice(0, pageSize)
    const next = found.length > pageSize ? items.at(-1)?.type : undefined
    return Promise.resolve({ kind: 'ok', value: { items, next } })
  },
  columns: () => [
    { title: 'Type', cell: ({ type }) => <a href={`${path}/${type}`}>{type}</a> },
    { title: 'Meaning', isWide: true, cell: ({ description }) => <span class="wraps">{description}</span> },
    { title: 'Providers', cell: ({ providers }) => providers.map(({ provider }) => provider).join(', ') },
    { title: 'Since', isMinor: true, cell: ({ since }) => since },
  ],
  examined: () => 'the whole catalogue',
  empty: { icon: 'eventTypes', title: 'No types', text: 'No provider has event types.' },
  noMatch: 'The search looks for a part of a type or of a provider’s raw type.',
})

/** Page of one normalized type with its raw types and an example of each provider. */
const eventTypeRow: PageRow = {
  ...{ method: 'GET', path: `${path}/:type`, section: 'eventTypes' },
  show({ params, query }) {
    const entry = eventCatalogue.find(({ type }) => type === params['type'])
    if (entry === undefined) return { kind: 'notFound' }
    return shown(
      entry.type,
      <>
        <PageHeader
          title={entry.type}
          lead={entry.description}
          crumbs={[{ label: 'Event types', path: link(path, { tenant: query['tenant'] }) }]}
        >
          <a class="button" href={link('/events', { tenant: query['tenant'], type: entry.type })}>
            Events of this type
          </a>
        </PageHeader>
        {entry.providers.map(({ provider, since, sources, example }) => (
          <Card title={provider} note={`since ${since}`}>
            <Table
              caption={`Raw types of ${provider}`}
              rows={sources}
              columns={[
                { title: 'Raw type', cell: ({ providerRawType }) => <code>{providerRawType}</code> },
                {
                  title: 'If',
                  isWide: true,
                  cell: (source) => <span class="wraps">{conditionsText(source)}</span>,
                },
              ]}
            />
            <Facts facts={[['Example', 'payload of such an event']]} />
            <JsonBlock text={JSON.stringify(example)} label={`example of ${provider}`} />
          </Card>
        ))}
      </>,
    )
  },
}

/** Pages of the catalogue of event types. */
export const eventTypeRows: readonly PageRow[] = [eventTypesRow, eventTypeRow]
