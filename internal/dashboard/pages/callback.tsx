import type { CallbackTested, TenantSummary } from '#internal/backoffice/index.ts'
import { randomToken } from '#internal/base/index.ts'
import { eventCatalogue } from '#internal/providers/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { Card, Facts, Notice, PageHeader } from '../components/block.tsx'
import {
  builtInProviderField,
  Fields,
  FilterForm,
  filled,
  LinkButton,
  PostForm,
  type Problems,
  readFields,
  SendButtons,
  Submit,
} from '../components/form.tsx'
import { JsonBlock } from '../components/json.tsx'
import { Copy, durationText } from '../components/text.tsx'
import {
  type ActionContext,
  type ActionRow,
  doneAt,
  goTo,
  link,
  nameOf,
  type PageContext,
  type PageRow,
  shown,
  withRight,
} from '../page.ts'
import { invalidText } from '../problem.tsx'
import { actionRows } from './action-rows.tsx'
import { nextOf, readOutlook, resumedAt } from './resumption.tsx'

const findTenant = ({ tenant }: PageContext) =>
  tenant === undefined
    ? ({ kind: 'needsTenant' } as const)
    : ({ kind: 'found', subject: tenant, owner: tenant.id } as const)

const testPath = '/tenants/:tenant/test'
const plainType = 'latchkey.test'
const plainPayload = JSON.stringify(
  { message: 'A test of this callback. No provider sent it.' },
  undefined,
  2,
)
const payloadCharsMax = 16_384

const sampleFields = [
  { ...builtInProviderField, none: 'generic' },
  { kind: 'text', name: 'type', label: 'Event type', charsMax: 255, placeholder: plainType },
] as const
const payloadField = { kind: 'lines', name: 'payload', label: 'Payload', charsMax: payloadCharsMax } as const

/** Form for a test event. The query names a provider and a type, whose sample the editor loads. */
const testFormRow: PageRow = {
  method: 'GET',
  path: testPath,
  section: 'tenants',
  show: (context) =>
    withRight(context, 'replay', (tenant) => {
      const { values, problems } = readFields(sampleFields, context.query)
      return showTestForm({ context, tenant, key: randomToken(), ...values, problems })
    }),
}

/** Sends a test event with the type and payload of the form, or the default test event if the form has none. */
const sendTestRow: ActionRow = {
  method: 'POST',
  path: testPath,
  section: 'tenants',
  back: testPath,
  backKeeps: ['provider', 'type'],
  act: (context) =>
    withRight(context, 'replay', async (tenant) => {
      const { backoffice, actor, form } = context
      const { key, payload } = form
      const { provider = 'generic', type = plainType } = readFields(sampleFields, form).values
      const asked = payload === undefined ? undefined : { provider, type, payload }
      const idempotencyKey = key === '' ? undefined : key
      const request = { tenantId: tenant.id, idempotencyKey, content: asked }
      const sent = await backoffice.callbacks.sendTestEvent(actor, request)
      if (sent.kind === 'invalid' && sent.field !== undefined) {
        const problems = { [sent.field]: invalidText(sent) }
        return showTestForm({ context, tenant, key: randomToken(), provider, type, payload, problems })
      }
      if (sent.kind !== 'ok') return sent
      const again = asked ?? {}
      return shown(
        'Test event',
        <TestResult sent={sent.value} context={context} tenant={tenant} again={again} />,
      )
    }),
}

function sampleOf(provider: ProviderName, type: string): string | undefined {
  const listed = eventCatalogue.find((entry) => entry.type === type)?.providers
  const example = listed?.find((each) => each.provider === provider)?.example
  return example && JSON.stringify(example, undefined, 2)
}

function showTestForm(props: {
  readonly context: PageContext
  readonly tenant: TenantSummary
  readonly key: string
  readonly provider?: ProviderName | undefined
  readonly type?: string | undefined
  readonly payload?: string | undefined
  readonly problems: Problems
}) {
  const { context, tenant, key, provider = 'generic', type = plainType, payload, problems } = props
  const path = `/tenants/${tenant.id}/test`
  const sample = sampleOf(provider, type)
  const isUnlisted = sample === undefined && provider !== 'generic'
  const typeProblem =
    problems['type'] ?? (isUnlisted ? `${provider} has no event type of this name` : undefined)
  const shownProblems = { ...problems, ...(typeProblem && { type: typeProblem }) }
  const crumbs = [
    { label: 'Tenants', path: '/tenants' },
    { label: nameOf(tenant), path: `/tenants/${tenant.id}` },
  ]
  return shown(
    'Send a test event',
    <>
      <PageHeader
        title={`Send a test event to ${nameOf(tenant)}`}
        crumbs={crumbs}
        lead="The callback is called once, now, signed like every delivery. You will see the response; the audit log records the call."
      />
      <FilterForm
        path={path}
        fields={filled(sampleFields, { provider, type }, shownProblems)}
        isActive={false}
        button="Load sample"
      />
      <Card title={type} note={provider}>
        <PostForm action={path} csrfToken={context.csrfToken} hidden={{ key, provider, type }}>
          <Fields fields={filled([payloadField], { payload: payload ?? sample ?? plainPayload }, problems)} />
          <SendButtons button="Send the test event" back={`/tenants/${tenant.id}`} />
        </PostForm>
        <p class="card-note">
          The receiver recognizes a test by <code>latchkey-origin: test</code> among the event’s{' '}
          <code>headers</code>, whatever its type. It is listed with the origin “Test” and never retried or
          replayed; no other event is affected.{' '}
          <a href={link('/event-types', { tenant: tenant.id })}>Event types</a>
        </p>
      </Card>
    </>,
    Object.keys(shownProblems).length > 0 ? 422 : 200,
  )
}

function TestResult(props: {
  readonly sent: CallbackTested
  readonly context: ActionContext
  readonly tenant: TenantSummary
  /** Form fields for another event with this content. */
  readonly again: Readonly<Record<string, string>>
}) {
  const {
    sent: { id, result },
    context: { csrfToken },
    tenant,
    again,
  } = props
  const answered = result.kind === 'answered' ? result : undefined
  const isGood = answered !== undefined && answered.status >= 200 && answered.status < 300
  const time = durationText(result.durationMs)
  const path = `/tenants/${tenant.id}`
  const crumbs = [
    { label: 'Tenants', path: '/tenants' },
    { label: nameOf(tenant), path },
  ]
  return (
    <>
      <PageHeader title="Test event" crumbs={crumbs}>
        <PostForm
          action={`${path}/test`}
          csrfToken={csrfToken}
          hidden={{ key: randomToken(), ...again }}
          look="inline-form"
        >
          <Submit tone="normal">Send another</Submit>
        </PostForm>
        <LinkButton href={path}>Back to the tenant</LinkButton>
      </PageHeader>
      <Notice
        tone={isGood ? 'good' : 'bad'}
        title={isGood ? 'The callback accepted the event' : 'Test delivery failed'}
      >
        {result.kind === 'failed'
          ? result.message
          : isGood
            ? `It answered ${result.status} in ${time}.`
            : `It answered ${result.status} after ${time}; only 2xx is success, and redirects are not followed.`}
      </Notice>
      <Card title="Response">
        <Facts
          facts={[
            ['webhook-id', <Copy text={id} label="Copy the id" />],
            ['Event', <a href={link(`/events/${id}`, { tenant: tenant.id })}>stored as a test</a>],
            ['Status', answered && String(answered.status)],
            ['Cause', result.kind === 'failed' ? <code>{result.cause}</code> : undefined],
            ['Time', time],
            ['Content-Type', answered?.headers['content-type']],
            ['Retry-After', answered?.headers['retry-after']],
            ['webhook-delivery', answered?.headers['webhook-delivery']],
          ]}
        />
        {answered !== undefined &&
          (answered.answer === '' ? (
            <p class="card-note">The response has no body.</p>
          ) : (
            <JsonBlock text={answered.answer} label="response" />
          ))}
        {answered?.isAnswerCut === true && <p class="card-note">The response is truncated here.</p>}
      </Card>
    </>
  )
}

const resumeRows = actionRows<TenantSummary>({
  path: '/tenants/:tenant/resume',
  section: 'tenants',
  back: '/tenants/:tenant',
  title: 'Resume deliveries',
  right: 'replay',
  find: findTenant,
  ask: async (tenant, context) => ({
    question: `Resume deliveries to ${nameOf(tenant)}?`,
    button: 'Resume deliveries',
    back: nextOf(context.query['next'], `/tenants/${tenant.id}`),
    hidden: { next: context.query['next'] },
    text: (
      <>
        <p>{(await readOutlook(context, { tenantId: tenant.id })).text}</p>
        <p>
          One event is delivered first, and the others once it has succeeded. If the callback answers 410 or{' '}
          <code>webhook-delivery: disable</code> again, this event has ended and the callback is suspended
          again.
        </p>
      </>
    ),
  }),
  async act(tenant, context) {
    const resumed = await context.backoffice.callbacks.resume(context.actor, tenant.id)
    if (resumed.kind !== 'ok') return resumed
    const path = nextOf(context.form['next'], `/tenants/${tenant.id}`)
    return resumed.value.isNew
      ? resumedAt(path, context, { tenantId: tenant.id })
      : goTo(path, 'The callback was not suspended.', 'info')
  },
})

const testNotificationRows = actionRows<TenantSummary>({
  path: '/tenants/:tenant/notifications/test',
  section: 'tenants',
  back: '/tenants/:tenant',
  title: 'Send a test notification',
  right: 'replay',
  find: findTenant,
  ask: (tenant) => ({
    question: `Send a test notification of ${nameOf(tenant)}?`,
    button: 'Send the test notification',
    back: `/tenants/${tenant.id}`,
    text: (
      <p>
        The receiver of <code>spec.notifications</code> gets an event of type <code>{plainType}</code> with
        provider <code>latchkey</code>, or a Slack message, like every notification and with the same
        attempts. The next page shows its delivery. At most one test is sent in ten seconds.
      </p>
    ),
  }),
  async act(tenant, { backoffice, actor }) {
    const sent = await backoffice.callbacks.sendTestNotification(actor, tenant.id)
    if (sent.kind !== 'ok') return sent
    const { id } = sent.value
    const path = link(`/events/${id}`, { tenant: tenant.id })
    const repeated = 'A test notification was sent within the last ten seconds: this is it.'
    return doneAt(path, sent.value, 'The test notification is queued.', repeated)
  },
})

export const callbackRows = [testFormRow, sendTestRow, ...resumeRows, ...testNotificationRows] as const
