import type { AttemptDetail, InspectedAttempt } from '#internal/backoffice/index.ts'
import type { AttemptPlace } from '#internal/events/index.ts'
import { Card } from '../components/block.tsx'
import { Table } from '../components/list.tsx'
import { link, type PageContext } from '../page.ts'
import {
  type Difference,
  type DiffLine,
  differencesOf,
  headerDifferences,
  lineDifference,
} from './attempt-difference.ts'
import { attemptName, attemptTitle } from './attempt-name.ts'

/** Renders the differences between an attempt and another one, by default the attempt before. */
export function Comparison(props: {
  readonly context: PageContext
  readonly detail: InspectedAttempt
  readonly attempt: AttemptDetail
}) {
  const { context, detail, attempt } = props
  const { compared } = detail
  const others = detail.places.filter((each) => attemptName(each) !== attemptName(attempt))
  if (compared === undefined || others.length === 0) return null
  const { exchange } = attempt
  const titles = [attemptTitle(compared, detail.event), attemptTitle(attempt, detail.event)] as const
  return (
    <Card title={`Compared with ${titles[0].toLowerCase()}`}>
      {others.length > 1 && choice(context, detail, others)}
      <Differences title="Result and timing" rows={differencesOf(compared, attempt)} titles={titles} />
      {exchange && compared.exchange ? (
        <>
          <Differences
            title="Request headers"
            rows={headerDifferences(compared.exchange.request.headerLines, exchange.request.headerLines)}
            titles={titles}
          />
          <Differences
            title="Response headers"
            rows={headerDifferences(compared.exchange.response.headerLines, exchange.response.headerLines)}
            titles={titles}
          />
        </>
      ) : (
        <p class="muted">The headers of one of the attempts were not recorded.</p>
      )}
      <Body lines={lineDifference(compared.answer ?? '', attempt.answer ?? '')} />
    </Card>
  )
}

function choice(
  context: PageContext,
  { event, compared }: InspectedAttempt,
  others: readonly AttemptPlace[],
) {
  const [path = ''] = context.here.split('?')
  const { tenant } = context.query
  const current = compared && attemptName(compared)
  return (
    <form class="compare-form" method="get" action={link(path)}>
      {tenant !== undefined && <input type="hidden" name="tenant" value={tenant} />}
      <label for="compare-with">Compare with</label>
      <select id="compare-with" name="with">
        {others.toReversed().map((each) => (
          <option value={attemptName(each)} selected={attemptName(each) === current}>
            {attemptTitle(each, event)}
          </option>
        ))}
      </select>
      <button type="submit" class="button">
        Compare
      </button>
    </form>
  )
}

function Differences(props: {
  readonly title: string
  readonly rows: readonly Difference[]
  readonly titles: readonly [before: string, after: string]
}) {
  const { title, rows, titles } = props
  return (
    <section class="difference" aria-label={title}>
      <h3>{title}</h3>
      <Table<Difference>
        caption={`Differences: ${title}`}
        rows={rows}
        empty={<p class="muted">No difference.</p>}
        columns={[
          { title: 'Name', cell: ({ name }) => name },
          { title: titles[0], cell: ({ before }) => <Value text={before} /> },
          { title: titles[1], cell: ({ after }) => <Value text={after} /> },
        ]}
      />
    </section>
  )
}

function Value({ text }: { readonly text: string | undefined }) {
  return text === undefined ? <span class="muted">absent</span> : <span class="compared-value">{text}</span>
}

function Body({ lines }: { readonly lines: readonly DiffLine[] }) {
  return (
    <section class="difference" aria-label="Response body">
      <h3>Response body</h3>
      {lines.length === 0 ? (
        <p class="muted">No difference in the recorded part.</p>
      ) : (
        <pre class="diff" role="region" aria-label="differences of the response bodies" tabIndex={0}>
          {lines.map(({ kind, text }) => {
            if (kind === 'removed') return <del>{`- ${text}\n`}</del>
            if (kind === 'added') return <ins>{`+ ${text}\n`}</ins>
            return `  ${text}\n`
          })}
        </pre>
      )}
    </section>
  )
}
