import { noticeSamples, ownProvider, testNoticeType } from '#internal/events/index.ts'
import {
  type CatalogueEntry,
  conditionsText,
  eventCatalogue,
  type TypeSource,
  typesOf,
} from '#internal/providers/index.ts'
import { neutralProviderName } from '#internal/tenants/index.ts'
import { Card, Empty, PageHeader } from '../components/block.tsx'
import { builtInProviderField, LinkButton } from '../components/form.tsx'
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
  builtInProviderField,
] as const satisfies readonly Filter[]

const pageSize = 100

type ListedType = Omit<CatalogueEntry, 'providers'> & {
  readonly providers: readonly {
    readonly provider: string
    readonly sources: readonly Pick<TypeSource, 'providerRawType'>[]
  }[]
}

const allTypes: readonly ListedType[] = [
  ...eventCatalogue,
  ...Object.entries(noticeSamples).map(([type, { description }]) => ({
    type,
    description,
    since: '0.1.0',
    providers: [{ provider: ownProvider, sources: [{ providerRawType: type }] }],
  })),
].toSorted((a, b) => (a.type < b.type ? -1 : 1))

/** Searches the type and its raw types, ignoring case. */
function matches({ type, providers }: ListedType, search: string): boolean {
  const text = search.toLowerCase()
  const rawTypes = providers.flatMap(({ sources }) => sources.map(({ providerRawType }) => providerRawType))
  return [type, ...rawTypes].some((each) => each.toLowerCase().includes(text))
}

const eventTypesRow = listRow({
  path,
  section: 'eventTypes',
  title: 'Event types',
  noun: 'types',
  fields,
  pageSize,
  hidesTenant: true,
  lead: () =>
    'Normalized types and the raw types of each provider that lead to them, and the types of notifications. The same for all tenants.',
  load(_context, { search, provider, after }) {
    const listed: readonly ListedType[] = provider === undefined ? allTypes : typesOf(provider)
    const found = listed.filter(
      (entry) =>
        (after === undefined || entry.type > after) && (search === undefined || matches(entry, search)),
    )
    const items = found.slice(0, pageSize)
    const next = found.length > pageSize ? items.at(-1)?.type : undefined
    return Promise.resolve({ kind: 'ok', value: { items, next } })
  },
  columns: ({ query: { tenant } }) => [
    { title: 'Type', cell: ({ type }) => <a href={link(`${path}/${type}`, { tenant })}>{type}</a> },
    { title: 'Meaning', isWide: true, cell: ({ description }) => <span class="wraps">{description}</span> },
    { title: 'Providers', cell: ({ providers }) => providers.map(({ provider }) => provider).join(', ') },
    { title: 'Since', isMinor: true, cell: ({ since }) => since },
  ],
  examined: () => 'the whole catalogue',
  empty: { icon: 'eventTypes', title: 'No types', text: 'No provider has event types.' },
  noMatch: ({ provider = '' }) =>
    neutralProviderName(provider) === 'generic'
      ? 'generic has no list of its own: senders choose their types. A type in dotted lowercase is kept, any other becomes generic.<type>.'
      : 'The search looks for a part of a type or of a provider’s raw type.',
})

const eventTypeRow: PageRow = {
  method: 'GET',
  path: `${path}/:type`,
  section: 'eventTypes',
  show({ params, query }) {
    const { type = '' } = params
    const { tenant } = query
    const entry = eventCatalogue.find((each) => each.type === type)
    const crumbs = [{ label: 'Event types', path: link(path, { tenant }) }]
    const notice = Object.entries(noticeSamples).find(([name]) => name === type)?.[1]
    const isListed = entry !== undefined || notice !== undefined
    const title = isListed ? type : 'Unlisted event type'
    return shown(
      title,
      <>
        <PageHeader title={title} lead={entry?.description ?? notice?.description} crumbs={crumbs}>
          <LinkButton href={link('/events', { tenant, type })}>Events of this type</LinkButton>
        </PageHeader>
        {notice !== undefined && <NoticeCard type={type} sample={notice.sample} />}
        {entry === undefined && notice === undefined && <Unlisted type={type} tenant={tenant} />}
        {entry?.providers.map(({ provider, since, sources, providerRawType, example }) => (
          <Card
            title={provider}
            note={`since ${since}`}
            actions={
              tenant !== undefined && (
                <a href={link(`/tenants/${encodeURIComponent(tenant)}/test`, { provider, type })}>
                  Send as a test event
                </a>
              )
            }
          >
            <Table
              caption={`Raw types of ${provider}`}
              rows={sources}
              columns={[
                { title: 'Raw type', cell: (source) => <code>{source.providerRawType}</code> },
                {
                  title: 'Condition',
                  isWide: true,
                  cell: (source) => <SourceCondition source={source} tenant={tenant} />,
                },
              ]}
            />
            <p class="card-note">
              Example payload of <code>{providerRawType}</code>
            </p>
            <JsonBlock text={JSON.stringify(example)} label={`example of ${provider}`} />
          </Card>
        ))}
      </>,
      isListed ? 200 : 404,
    )
  },
}

function NoticeCard({ type, sample }: { readonly type: string; readonly sample: object }) {
  return (
    <Card title="latchkey" note="to the receiver of spec.notifications, never to the callback">
      {type === testNoticeType && (
        <p class="card-note">
          A test of the callback has this type, too, with the provider <code>generic</code>.
        </p>
      )}
      <p class="card-note">Example payload</p>
      <JsonBlock text={JSON.stringify(sample)} label="example of latchkey" />
    </Card>
  )
}

function Unlisted({ type, tenant }: { readonly type: string; readonly tenant: string | undefined }) {
  const [noun = ''] = type.split('.')
  const search = [type, `${noun}.`].find((text) => eventCatalogue.some((entry) => matches(entry, text)))
  return (
    <Empty icon="search" title={`${type} is not in the catalogue`}>
      <p>
        Raw types that are not listed become <code>{'<provider>.<raw type>'}</code>, those of codehost with an
        action <code>{'codehost.<event>.<action>'}</code>, and senders of generic choose their types, so there
        can be events of this type all the same.
      </p>
      <div class="buttons">
        <LinkButton href={link(path, { tenant, search })}>
          {search === undefined ? 'All event types' : `Search for ${search}`}
        </LinkButton>
      </div>
    </Empty>
  )
}

function SourceCondition(props: { readonly source: TypeSource; readonly tenant: string | undefined }) {
  const { source, tenant } = props
  const conditions = conditionsText(source)
  if (source.unless.length === 0) return <span class="wraps">{conditions || 'always'}</span>
  return (
    <span class="wraps">
      {conditions && `${conditions}, `}unless{' '}
      {source.unless.map((type, nth) => (
        <>
          {nth > 0 && ' or '}
          <a href={link(`${path}/${type}`, { tenant })}>{type}</a>
        </>
      ))}{' '}
      applies
    </span>
  )
}

export const eventTypeRows: readonly PageRow[] = [eventTypesRow, eventTypeRow]
