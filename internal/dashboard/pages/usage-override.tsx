import { type LimitName, limitNames } from '#internal/tenants/index.ts'
import { Card, Notice, PageHeader } from '../components/block.tsx'
import { Confirm, Fields, LinkButton, PostForm, Submit } from '../components/form.tsx'
import { Time } from '../components/text.tsx'
import type { Form } from '../form.ts'
import {
  type ActionRow,
  goTo,
  link,
  type PageContext,
  type PageResult,
  type PageRow,
  shown,
} from '../page.ts'
import { parseTimeField, timeFieldText, timeProblem } from '../time-field.ts'
import { withRight } from './rights.ts'
import { amountText, limitLabels } from './usage-parts.tsx'

const path = '/usage/override'
const dayMs = 86_400_000
const reasonCharsMax = 500
const amountPattern = /^\d{1,15}$/

/** The form by which a hard limit is overridden for a time. */
export const overrideFormRow: PageRow = {
  ...{ method: 'GET', path, section: 'usage' },
  show: (context) =>
    changing(context, context.query['limit'], async (of) => {
      const { backoffice, actor, nowMs } = context
      const usage = await backoffice.usage.read(actor, {
        tenantId: of.tenant.id,
        fromMs: nowMs - 1,
        toMs: nowMs,
      })
      if (usage.kind !== 'ok') return usage
      const present = usage.value.limits.find(({ limit }) => limit === of.limit)
      const { hard, untilMs, reason } = present?.override ?? {
        ...{ hard: present?.hard ?? null, untilMs: nowMs + dayMs, reason: '' },
      }
      const typed: Typed = {
        kind: present?.override?.hard === null ? 'none' : 'amount',
        hard: hard === null ? '' : String(hard),
        until: timeFieldText(untilMs),
        reason,
      }
      return shown('Override a limit', <OverrideForm {...{ context, of, typed, problems: {} }} />)
    }),
}

/** Checks what was typed, asks once more, then overrides the limit. */
export const overrideRow: ActionRow = {
  ...{ method: 'POST', path, section: 'usage', back: path, backKeeps: ['limit'] },
  act: (context) =>
    changing(context, context.form['limit'], async (of) => {
      const { form, nowMs, backoffice, actor } = context
      const typed = typedIn(form)
      const read = readTyped(typed, nowMs)
      if (read.kind === 'wrong') return refused(context, of, typed, read.problems)
      const { hard, untilMs, reason } = read
      if (form['sure'] !== 'yes')
        return shown('Override a limit', <AskOverride {...{ context, of, typed, read }} />)
      const asked = { tenantId: of.tenant.id, limit: of.limit, hard, untilMs, reason }
      const done = await backoffice.usage.override(actor, asked)
      if (done.kind === 'invalid') return refused(context, of, typed, { all: done.problem })
      if (done.kind !== 'ok') return done
      return goTo(
        link('/usage', { tenant: of.tenant.id }),
        done.value.isNew
          ? `${limitLabels[of.limit].label}: overridden.`
          : 'It was overridden like that already.',
      )
    }),
}

/** Asks before an override is ended. */
export const askClearOverrideRow: PageRow = {
  ...{ method: 'GET', path: `${path}/clear`, section: 'usage' },
  show: (context) =>
    changing(context, context.query['limit'], ({ tenant, limit }) =>
      shown(
        'End the override',
        <Confirm
          question={`End the override of ${limitLabels[limit].label.toLowerCase()}?`}
          action={`${path}/clear`}
          csrfToken={context.csrfToken}
          hidden={{ tenant: tenant.id, limit }}
          button="End the override"
          tone="danger"
          back={link('/usage', { tenant: tenant.id })}
        >
          <p>The tenant’s own limit, or the platform’s, holds again at once. It is noted in the audit log.</p>
        </Confirm>,
      ),
    ),
}

/** Ends an override before its time. */
export const clearOverrideRow: ActionRow = {
  ...{ method: 'POST', path: `${path}/clear`, section: 'usage', back: '/usage' },
  act: (context) =>
    changing(context, context.form['limit'], async ({ tenant, limit }) => {
      const done = await context.backoffice.usage.clearOverride(context.actor, { tenantId: tenant.id, limit })
      if (done.kind !== 'ok') return done
      const text = done.value.isNew
        ? `${limitLabels[limit].label}: the override was ended.`
        : 'There was no override.'
      return goTo(link('/usage', { tenant: tenant.id }), text, done.value.isNew ? 'good' : 'info')
    }),
}

interface Of {
  readonly tenant: NonNullable<PageContext['tenant']>
  readonly limit: LimitName
}

async function changing(
  context: PageContext,
  named: string | undefined,
  proceed: (of: Of) => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const limit = limitNames.find((name) => name === named)
  if (limit === undefined)
    return context.tenant === undefined
      ? { kind: 'needsTenant' }
      : { kind: 'invalid', problem: 'There is no such limit: choose one on the page of usage' }
  return withRight(context, 'changeSettings', (tenant) => proceed({ tenant, limit }))
}

/** What somebody typed, as it was typed. */
interface Typed {
  readonly kind: string
  readonly hard: string
  readonly until: string
  readonly reason: string
}

interface Problems {
  readonly hard?: string
  readonly until?: string
  readonly reason?: string
  /** Not of one field. */
  readonly all?: string
}

interface ReadOverride {
  readonly kind: 'read'
  readonly hard: number | null
  readonly untilMs: number
  readonly reason: string
}

function typedIn(form: Form): Typed {
  const { kind = 'amount', hard = '', until = '', reason = '' } = form
  return { kind, hard, until, reason }
}

/** Reads what was typed, or says of each field what is wrong with it. Pure. */
export function readTyped(
  { kind, hard, until, reason }: Typed,
  nowMs: number,
): ReadOverride | { readonly kind: 'wrong'; readonly problems: Problems } {
  const isNone = kind === 'none'
  const untilMs = parseTimeField(until)
  const problems: Problems = {
    ...(!isNone && !amountPattern.test(hard) && { hard: 'Give a whole number of at most 15 digits' }),
    ...(untilMs === undefined && { until: timeProblem }),
    ...(untilMs !== undefined &&
      untilMs <= nowMs && { until: 'This time is over: give a later one, in UTC' }),
    ...(reason === '' && { reason: 'Say why, for whoever reads the audit log' }),
    ...(reason.length > reasonCharsMax && { reason: `Use at most ${reasonCharsMax} characters` }),
  }
  if (untilMs === undefined || Object.keys(problems).length > 0) return { kind: 'wrong', problems }
  return { kind: 'read', hard: isNone ? null : Number(hard), untilMs, reason }
}

function refused(context: PageContext, of: Of, typed: Typed, problems: Problems): PageResult {
  return {
    ...shown('Override a limit', <OverrideForm {...{ context, of, typed, problems }} />),
    status: 422,
  }
}

interface FormParts {
  readonly context: PageContext
  readonly of: Of
  readonly typed: Typed
  readonly problems: Problems
}

function OverrideForm({ context: { csrfToken }, of: { tenant, limit }, typed, problems }: FormParts) {
  const back = link('/usage', { tenant: tenant.id })
  return (
    <>
      <PageHeader
        title={`Override ${limitLabels[limit].label.toLowerCase()}`}
        crumbs={[{ label: 'Usage', path: back }]}
        lead="Another hard limit for a time. It lapses by itself; then the tenant’s own limit, or the platform’s, holds again."
      />
      {problems.all !== undefined && <Notice tone="bad" title={problems.all} />}
      <Card title="The limit for that time">
        <PostForm action={path} csrfToken={csrfToken} hidden={{ tenant: tenant.id, limit }}>
          <Fields
            fields={[
              {
                ...{ kind: 'choice', name: 'kind', label: 'Limit', value: typed.kind },
                choices: [
                  { value: 'amount', label: 'This amount' },
                  { value: 'none', label: 'No limit at all' },
                ],
              },
              {
                ...{ kind: 'number', name: 'hard', label: 'Amount', value: typed.hard },
                ...{ problem: problems.hard, charsMax: 15 },
                hint:
                  limit === 'recordBytes'
                    ? 'In bytes. Not used for “no limit at all”.'
                    : 'Not used for “no limit at all”.',
              },
              {
                ...{ kind: 'time', name: 'until', label: 'Until (UTC)', value: typed.until },
                ...{ problem: problems.until, hint: 'At most 366 days ahead.' },
              },
              {
                ...{ kind: 'text', name: 'reason', label: 'Reason', value: typed.reason },
                ...{ problem: problems.reason, charsMax: reasonCharsMax, isRequired: true },
                hint: 'Stands beside the limit and in the audit log.',
              },
            ]}
          />
          <div class="buttons">
            <Submit>Go on</Submit>
            <LinkButton href={back} tone="plain">
              Back
            </LinkButton>
          </div>
        </PostForm>
      </Card>
    </>
  )
}

function AskOverride({
  context: { csrfToken },
  of: { tenant, limit },
  typed,
  read: { hard, untilMs, reason },
}: Pick<FormParts, 'context' | 'of' | 'typed'> & { readonly read: ReadOverride }) {
  return (
    <Confirm
      question={`Override ${limitLabels[limit].label.toLowerCase()} of ${tenant.slug ?? tenant.name}?`}
      action={path}
      csrfToken={csrfToken}
      hidden={{ ...typed, tenant: tenant.id, limit, sure: 'yes' }}
      button="Override the limit"
      back={link(path, { tenant: tenant.id, limit })}
    >
      <p>
        The hard limit is <strong>{hard === null ? 'lifted' : amountText(limit, hard)}</strong> until{' '}
        <Time atMs={untilMs} format="full" />, in force within two seconds.
      </p>
      <p>Reason: “{reason}”</p>
    </Confirm>
  )
}
