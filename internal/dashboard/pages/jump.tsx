import type { ComponentChildren } from 'preact'
import type { Outcome, TenantSummary } from '#internal/backoffice/index.ts'
import { parseEventId } from '#internal/base/index.ts'
import type { EventSummary } from '#internal/events/index.ts'
import { parseReplayId } from '#internal/replays/index.ts'
import { checkSettingName, settingNames } from '#internal/settings/index.ts'
import { keyPrefixChars } from '#internal/tenants/index.ts'
import { Card, Empty, PageHeader } from '../components/block.tsx'
import { FilterForm } from '../components/form.tsx'
import { goTo, link, nameOf, type PageContext, type PageRow, refOf, sections, shown } from '../page.ts'
import { stageText } from './replays.tsx'
import { familiesOf, typesLike } from './type-hint.tsx'

/** Maximum number of results of each kind. */
const resultsMax = 10
/** Minimum characters of a text that is searched among the providers' ids. Shorter texts cost no query while a name is being typed. */
const sourceIdCharsMin = 4
/** Form of most ids of providers. While a text is being typed, only such texts are compared with the ids of all tenants. */
const sourceIdForm = /^(?=.*\d).{8,}$/
/** Minimum length for a comparison with names of types and settings. */
const nameCharsMin = 3
/** Maximum number of types, and of settings, in the results. */
const namesMax = 5
const findCharsMax = 200

interface Target {
  readonly href: string
  readonly label: string
  readonly note?: string | undefined
}

interface Group {
  readonly title: string
  readonly targets: readonly Target[]
  readonly problem?: string | undefined
}

const otherPages = [
  { label: 'New replay', path: '/replays/new' },
  { label: 'Events with failed delivery', path: '/events', query: { state: 'delivery_failed' } },
  { label: 'Accepted events', path: '/events', query: { state: 'accepted' } },
  { label: 'Start a simulation', path: '/simulations/new' },
] as const

export const jumpRow: PageRow = {
  method: 'GET',
  path: '/jump',
  async show(context) {
    const find = context.query['find']?.slice(0, findCharsMax) ?? ''
    // An address must not contain a whole API key.
    if (find.startsWith('lk_') && find.length > keyPrefixChars)
      return goTo(link('/jump', { ...context.query, find: find.slice(0, keyPrefixChars) }))
    const groups = await findAll(context, find)
    return shown('Jump to', <Jump context={context} find={find} groups={groups} />)
  },
}

function Jump(props: {
  readonly context: PageContext
  readonly find: string
  readonly groups: readonly Group[]
}) {
  const {
    context: { query },
    find,
    groups,
  } = props
  const isFound = groups.some(({ targets }) => targets.length > 0)
  return (
    <>
      <PageHeader title="Jump to" lead="Finds tenants, events, replays, pages, event types and settings." />
      <FilterForm
        path="/jump"
        fields={[
          {
            kind: 'text',
            name: 'find',
            label: 'Tenant, event, replay, type, setting or page',
            charsMax: findCharsMax,
            value: find,
            placeholder: 'Name, slug or id',
          },
        ]}
        kept={{ tenant: query['tenant'] }}
        isActive={find !== ''}
        button="Find"
      />
      <div id="jump-results">
        {groups.map(
          ({ title, targets, problem }) =>
            (targets.length > 0 || problem !== undefined) && (
              <Card title={title}>
                {targets.length > 0 && <Targets targets={targets} />}
                {problem !== undefined && <p class="card-note">{problem}</p>}
              </Card>
            ),
        )}
        {!isFound && (
          <Empty icon="search" title="Nothing found">
            <p>
              Tenants are found by name, slug, id and the first characters of an API key; events by their id
              and by the provider’s; replays by their id; event types and settings by a part of their name.
            </p>
          </Empty>
        )}
      </div>
    </>
  )
}

function Targets({ targets }: Pick<Group, 'targets'>): ComponentChildren {
  return (
    <ul class="targets">
      {targets.map(({ href, label, note }) => (
        <li>
          <a href={href}>{label}</a> {note !== undefined && <span class="muted">{note}</span>}
        </li>
      ))}
    </ul>
  )
}

async function findAll(context: PageContext, find: string): Promise<readonly Group[]> {
  const pages = { title: 'Pages', targets: pagesLike(context, find) }
  if (find === '') return [pages]
  const replayId = parseReplayId(find)
  if (replayId !== undefined) return [await findReplay(context, replayId)]
  const [tenants, events] = await Promise.all([findTenants(context, find), findEvents(context, find)])
  return [tenants, events, pages, typesNamed(context, find), settingsNamed(context, find)]
}

async function findReplay(
  { backoffice, actor }: PageContext,
  id: NonNullable<ReturnType<typeof parseReplayId>>,
): Promise<Group> {
  const read = await backoffice.replays.read(actor, id)
  const targets =
    read.kind === 'ok' ? [{ href: `/replays/${id}`, label: id, note: stageText(read.value) }] : []
  return { title: 'Replays', targets, problem: problemIn(read) }
}

/** Finds types that contain the text, and the family of types that begins with it. */
function typesNamed({ query: { tenant } }: PageContext, find: string): Group {
  const text = find.toLowerCase().replace(/[.]?[*]?$/, '')
  const listed = text.length < nameCharsMin ? [] : [...familiesOf(text), ...typesLike(text)]
  // Offers a type that is not listed: senders of the provider `generic` choose their own types, which are in no catalogue.
  const isUnlisted = listed.length === 0 && unlistedType.test(text) && namesLike(text).length === 0
  const note = isUnlisted ? 'events of this type, which is not in the catalogue' : 'events of this type'
  const targets = (isUnlisted ? [text] : listed)
    .slice(0, namesMax)
    .map((type) => ({ href: link('/events', { type, tenant }), label: type, note }))
  return { title: 'Event types', targets }
}

/** Form of a type of at least two words, which ids and names of tenants do not have. */
const unlistedType = /^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)+$/

function namesLike(text: string) {
  if (text.length < nameCharsMin) return []
  return settingNames.filter((name) => name.toLowerCase().includes(text))
}

/** Finds settings by a part of their name. Links to the setting of the chosen tenant, if tenants can have this setting. */
function settingsNamed({ actor, query }: PageContext, find: string): Group {
  const isOfTenant = (name: string) => checkSettingName({ name, ofTenant: true }).kind !== 'refused'
  const targets = namesLike(find.toLowerCase())
    .filter((name) => actor.kind !== 'tenantKey' || isOfTenant(name))
    .slice(0, namesMax)
    .map((name) => ({
      href: `${link('/settings', { tenant: isOfTenant(name) ? query['tenant'] : undefined })}#${name}`,
      label: name,
      note: 'setting',
    }))
  return { title: 'Settings', targets }
}

function pagesLike({ query: { tenant } }: PageContext, find: string): readonly Target[] {
  const words = find.toLowerCase()
  return [
    ...sections.map(({ label, path }) => ({ label, path, query: {} })),
    ...otherPages.map((page) => ({ query: {}, ...page })),
  ]
    .filter(({ label }) => label.toLowerCase().includes(words))
    .map(({ label, path, query }) => ({
      label,
      href: link(path, { ...query, tenant: path === '/tenants' ? undefined : tenant }),
    }))
}

/** Finds tenants that the actor sees, by id, prefix of an API key, or part of a name. */
async function findTenants({ backoffice, actor, selection }: PageContext, find: string): Promise<Group> {
  const isReference = /^(ten|lk)_/.test(find)
  const { namespaces } = selection
  const [named, listed] = await Promise.all([
    backoffice.tenants.find(actor, refOf(find)),
    isReference ? undefined : backoffice.tenants.list(actor, { search: find, namespaces, limit: resultsMax }),
  ])
  const found = [
    ...(named.kind === 'ok' ? [named.value] : []),
    ...(listed?.kind === 'ok' ? listed.value.items : []),
  ]
  const unique = [...new Map(found.map((tenant) => [tenant.id, tenant])).values()]
  return {
    title: 'Tenants',
    targets: unique.slice(0, resultsMax).map(tenantTarget),
    problem: problemIn(named) ?? (listed?.kind === 'forbidden' ? listProblem : listed && problemIn(listed)),
  }
}

const listProblem =
  'You may see the tenants of some namespaces only. Enter these under “Namespaces”, or the whole slug of a tenant.'

function problemIn(outcome: Outcome<unknown>): string | undefined {
  if (outcome.kind === 'unavailable') return 'The search is unavailable at the moment. Try again.'
  return outcome.kind === 'conflict' ? outcome.problem : undefined
}

function tenantTarget(tenant: TenantSummary): Target {
  const { id, namespace, name } = tenant
  return { href: `/tenants/${id}`, label: nameOf(tenant), note: `${namespace}/${name}` }
}

async function findEvents(
  { backoffice, actor, selection, query, tenantLabel }: PageContext,
  find: string,
): Promise<Group> {
  const target = ({ id, type, tenantId, sourceEventId }: EventSummary): Target => ({
    href: `/events/${id}`,
    label: type,
    note: `${tenantLabel(tenantId)} · ${sourceEventId}`,
  })
  const id = parseEventId(find)
  const title = 'Events'
  if (id !== undefined) {
    const read = await backoffice.events.summary(actor, id)
    return { title, targets: read.kind === 'ok' ? [target(read.value)] : [], problem: problemIn(read) }
  }
  // The script sends `typing` while the text is incomplete.
  const isLikely =
    sourceIdForm.test(find) || query['typing'] === undefined || selection.tenantId !== undefined
  if (find.length < sourceIdCharsMin || !isLikely) return { title, targets: [] }
  const listed = await backoffice.events.list(actor, { ...selection, sourceEventId: find, limit: resultsMax })
  if (listed.kind === 'ok') return { title, targets: listed.value.items.map(target) }
  const isId = /\d/.test(find)
  return {
    title,
    targets: [],
    problem: listed.kind === 'invalid' && isId ? listed.problem : problemIn(listed),
  }
}
