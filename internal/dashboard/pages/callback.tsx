import type { TestEventSent } from '#internal/backoffice/index.ts'
import { randomToken } from '#internal/base/index.ts'
import { Card, Facts, Notice, PageHeader } from '../components/block.tsx'
import { LinkButton, PostForm, Submit } from '../components/form.tsx'
import { JsonBlock } from '../components/json.tsx'
import { Copy, durationText } from '../components/text.tsx'
import { type ActionContext, doneAt, link, nameOf, type PageContext, shown } from '../page.ts'
import { deedRows } from './deed.tsx'

type Tenant = NonNullable<PageContext['tenant']>

const findTenant = ({ tenant }: PageContext) =>
  tenant === undefined
    ? ({ kind: 'needsTenant' } as const)
    : ({ kind: 'found', subject: tenant, owner: tenant.id } as const)

const testRows = deedRows<Tenant>({
  ...{ path: '/tenants/:tenant/test', section: 'tenants', back: '/tenants/:tenant/test' },
  ...{ title: 'Send a test event', right: 'replay', find: findTenant },
  ask: (tenant) => ({
    question: `Send a test event to ${nameOf(tenant)}?`,
    button: 'Send the test event',
    hidden: { key: randomToken() },
    back: `/tenants/${tenant.id}`,
    text: (
      <>
        <p>
          The callback is called once, now, with an event of type <code>latchkey.test</code>, signed like
          every delivery. The receiver recognizes it by <code>latchkey-origin: test</code> among the event’s{' '}
          <code>headers</code>; a sender of generic can use its type. It is listed with the origin “Test”,
          never retried or replayed, and no other event is affected.
        </p>
        <p>You will see the response. The audit log records the call.</p>
      </>
    ),
  }),
  async act(tenant, context) {
    const { backoffice, actor, form } = context
    const idempotencyKey = form['key'] === '' ? undefined : form['key']
    const sent = await backoffice.callbacks.sendTestEvent(actor, { tenantId: tenant.id, idempotencyKey })
    if (sent.kind !== 'ok') return sent
    return shown('Test event', <TestResult sent={sent.value} context={context} tenant={tenant} />)
  },
})

interface TestParts {
  readonly sent: TestEventSent
  readonly context: ActionContext
  readonly tenant: Tenant
}

function TestResult({ sent: { id, result }, context: { csrfToken }, tenant }: TestParts) {
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
          hidden={{ key: randomToken() }}
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

const resumeRows = deedRows<Tenant>({
  ...{ path: '/tenants/:tenant/resume', section: 'tenants', back: '/tenants/:tenant' },
  ...{ title: 'Resume deliveries', right: 'replay', find: findTenant },
  ask: (tenant) => ({
    question: `Resume deliveries to ${nameOf(tenant)}?`,
    button: 'Resume deliveries',
    back: `/tenants/${tenant.id}`,
    text: (
      <p>
        All pending events are delivered as fast as the callback accepts them. If it answers 410 or{' '}
        <code>webhook-delivery: disable</code> again, it is suspended again.
      </p>
    ),
  }),
  async act(tenant, { backoffice, actor }) {
    const resumed = await backoffice.callbacks.resume(actor, tenant.id)
    if (resumed.kind !== 'ok') return resumed
    const path = `/tenants/${tenant.id}`
    return doneAt(path, resumed.value, 'Deliveries are resumed.', 'The callback was not suspended.')
  },
})

/** Pages and actions for a tenant's callback. */
export const callbackRows = [...testRows, ...resumeRows] as const
