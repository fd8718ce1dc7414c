import type { ComponentChildren } from 'preact'
import {
  defined,
  type PayloadMatches,
  type PayloadTerm,
  payloadPathCharsMax,
  searchesPerMinute,
  searchFormFields,
  termChars,
} from '#internal/backoffice/index.ts'
import { type EventSummary, searchedPayloadBytesMax } from '#internal/events/index.ts'
import { Card, Empty } from '../components/block.tsx'
import {
  type Field,
  type FieldValues,
  FormPage,
  filled,
  PostForm,
  type Problems,
  readFields,
  Submit,
  timeFieldText,
} from '../components/form.tsx'
import { Table } from '../components/list.tsx'
import { appliedTimes, receivedChoices, receivedRange } from '../components/received.ts'
import { bytesText, countText, StateBadge, Time } from '../components/text.tsx'
import { type ActionRow, link, nameOf, type PageContext, type PageRow, shown, withRight } from '../page.ts'
import { invalidText } from '../problem.tsx'
import type { Form } from '../request.ts'
import { searchableQuery } from './events.tsx'
import { ProviderCell } from './origin.tsx'
import { TypeHint } from './type-hint.tsx'

const path = '/events/search'
const withinDefault = '7d'

const fields = [
  {
    kind: 'text',
    name: 'text',
    label: 'Text',
    charsMax: termChars.max,
    isWhole: true,
    hint: 'Anywhere in the JSON of a payload, in the same case.',
  },
  {
    kind: 'text',
    name: 'path',
    label: 'Or path',
    charsMax: payloadPathCharsMax,
    placeholder: 'data.object.id',
    hint: 'A number is the place in an array: lines.0.sku',
  },
  { kind: 'text', name: 'equals', label: 'Value at the path', charsMax: termChars.max },
  ...searchFormFields,
  {
    kind: 'choice',
    name: 'within',
    label: 'Received',
    choices: receivedChoices,
    none: 'At the exact times',
    hint: 'Exact times take precedence.',
  },
  { kind: 'time', name: 'from', label: 'Received from' },
  { kind: 'time', name: 'to', label: 'Received before', hint: 'Empty: until now.' },
] as const satisfies readonly Field[]

/** Form of the payload search. It is sent with `POST`, so that the searched text is in no address and in no log. */
const formRow: PageRow = {
  method: 'GET',
  path,
  section: 'events',
  show: (context) =>
    withRight(context, 'readPayloads', () =>
      shown('Search payloads', <SearchForm context={context} typed={context.query} />),
    ),
}

const searchRow: ActionRow = {
  method: 'POST',
  path,
  section: 'events',
  back: path,
  act: (context) =>
    withRight(context, 'readPayloads', async (tenant) => {
      const { backoffice, actor, form } = context
      const { values, problems } = readFields(fields, form)
      const term = termOf(values)
      const { text: _text, path: _path, equals: _equals, within, from, to, ...filter } = values
      const { fromMs, toMs } = receivedRange({ within, from, to }, context)
      if (Object.keys(problems).length > 0) return refused(context, problems)
      if (term === undefined) return refused(context, {}, 'Enter a text, or a path and a value')
      if (fromMs === undefined)
        return refused(context, { from: 'Enter a time, or choose one under “Received”' })
      const request = { tenantId: tenant.id, fromMs, toMs, term, after: form['after'] }
      const found = await backoffice.events.search(actor, { ...request, ...defined(filter) })
      if (found.kind === 'invalid') return refused(context, {}, invalidText(found))
      if (found.kind !== 'ok') return found
      return shown(
        'Search payloads',
        <SearchForm context={context} typed={form}>
          <Matches context={context} matches={found.value} range={{ fromMs, toMs }} />
        </SearchForm>,
      )
    }),
}

function termOf({ text, path: at, equals }: FieldValues<typeof fields>): PayloadTerm | undefined {
  if (text !== undefined) return at === undefined ? { kind: 'text', text } : undefined
  return at === undefined || equals === undefined ? undefined : { kind: 'path', path: at, equals }
}

function refused(context: PageContext & { readonly form: Form }, problems: Problems, text?: string) {
  const body = <SearchForm context={context} typed={context.form} problems={problems} problem={text} />
  return shown('Search payloads', body, 422)
}

function SearchForm({
  context,
  typed,
  problems = {},
  problem,
  children,
}: {
  readonly context: PageContext
  readonly typed: Form
  readonly problems?: Problems
  readonly problem?: string | undefined
  readonly children?: ComponentChildren
}) {
  const { csrfToken, tenant } = context
  const hasTimes = ['within', 'from', 'to'].some((name) => typed[name] !== undefined)
  const values = hasTimes ? appliedTimes(typed) : { ...typed, within: withinDefault }
  return (
    <>
      <FormPage
        title="Search payloads"
        lead={`Payloads of ${tenant ? nameOf(tenant) : 'a tenant'} as received, newest first.`}
        crumb="Events"
        card="What to look for"
        action={path}
        csrfToken={csrfToken}
        hidden={{ tenant: tenant?.id }}
        button="Search"
        back={link('/events', { tenant: tenant?.id, ...searchableQuery(typed) })}
        fields={filled(fields, values, problems)}
        problem={problem === undefined ? undefined : { title: problem }}
        isPaired
      >
        <p class="muted">
          Each search is recorded in the audit log, without the text or the value. You have{' '}
          {searchesPerMinute} a minute in each process.
        </p>
      </FormPage>
      {children}
    </>
  )
}

function Matches({
  context,
  matches,
  range: { fromMs, toMs },
}: {
  readonly context: PageContext & { readonly form: Form }
  readonly matches: PayloadMatches
  readonly range: { readonly fromMs: number; readonly toMs: number | undefined }
}) {
  const { items, next, examinedCount, skippedCount, searchedToMs } = matches
  const { csrf: _csrf, within: _within, ...kept } = context.form
  // Uses exact times: a relative range such as the last 24 hours would move between two pages of the search.
  const times = {
    from: timeFieldText(fromMs),
    to: toMs === undefined ? undefined : timeFieldText(Math.ceil(toMs / 1_000) * 1_000),
  }
  const more = next !== undefined && (
    <PostForm
      action={path}
      csrfToken={context.csrfToken}
      hidden={{ ...kept, ...times, after: next }}
      look="inline-form"
    >
      <Submit tone="primary">Continue with older events</Submit>
    </PostForm>
  )
  return (
    <Card title="Matches" note={`${countText(examinedCount)} payloads searched`}>
      <Table<EventSummary>
        caption="Matches"
        rows={items}
        empty={
          <Empty icon="search" title={next === undefined ? 'No payload matches' : 'Nothing found yet'}>
            <TypeHint type={kept['type'] || undefined} />
          </Empty>
        }
        columns={[
          {
            title: 'Type',
            isWide: true,
            cell: ({ id, type }) => (
              <a href={link(`/events/${id}`, { tenant: context.tenant?.id })}>{type}</a>
            ),
          },
          { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
          { title: 'Provider', cell: (event) => <ProviderCell event={event} /> },
          { title: 'Received', cell: ({ receivedAtMs }) => <Time atMs={receivedAtMs} /> },
        ]}
      />
      <p class="muted searched">
        {next === undefined ? 'Everything was searched, back to ' : 'Searched back to '}
        <Time atMs={searchedToMs} />.
        {skippedCount > 0 &&
          ` ${countText(skippedCount)} payloads were left out: they have expired or are larger than ${bytesText(searchedPayloadBytesMax)}.`}
      </p>
      {more && <div class="buttons">{more}</div>}
    </Card>
  )
}

export const payloadSearchRows = [formRow, searchRow] as const
