import type { TestEventSent } from '#internal/backoffice/index.ts'
import { randomToken } from '#internal/base/index.ts'
import { Card, Facts, Notice, PageHeader } from '../components/block.tsx'
import { Confirm, LinkButton, PostForm, Submit } from '../components/form.tsx'
import { CodeBlock, Copy, durationText } from '../components/text.tsx'
import { type ActionContext, type ActionRow, goTo, type PageContext, type PageRow, shown } from '../page.ts'
import { withRight } from './rights.ts'
import { nameOf } from './tenant.tsx'

/** Asks before a test event is sent. */
export const askTestRow: PageRow = {
  ...{ method: 'GET', path: '/tenants/:tenant/test', section: 'tenants' },
  show: (context) =>
    withRight(context, 'replay', (tenant) =>
      shown(
        'Send a test event',
        <Confirm
          question={`Send a test event to ${nameOf(tenant)}?`}
          action={`/tenants/${tenant.id}/test`}
          csrfToken={context.csrfToken}
          hidden={{ key: randomToken() }}
          button="Send the test event"
          back={`/tenants/${tenant.id}`}
        >
          <p>
            Its callback is called once, now, with an event of type <code>latchkey.test</code>, signed as
            every delivery is. Nothing is stored, nothing is tried again, and no other event is touched.
          </p>
          <p>The answer is shown to you; the call is noted in the audit log.</p>
        </Confirm>,
      ),
    ),
}

/** Sends a test event and shows what came of it. */
export const testRow: ActionRow = {
  ...{ method: 'POST', path: '/tenants/:tenant/test', section: 'tenants', back: '/tenants/:tenant/test' },
  async act(context) {
    const { backoffice, actor, tenant, form } = context
    if (tenant === undefined) return { kind: 'needsTenant' }
    const sent = await backoffice.callbacks.sendTestEvent(actor, {
      tenantId: tenant.id,
      idempotencyKey: form['key'] === undefined || form['key'] === '' ? undefined : form['key'],
    })
    if (sent.kind !== 'ok') return sent
    return shown('Test event', <TestResult sent={sent.value} context={context} tenant={tenant} />)
  },
}

type Tenant = NonNullable<PageContext['tenant']>

interface TestParts {
  readonly sent: TestEventSent
  readonly context: ActionContext
  readonly tenant: Tenant
}

function TestResult({ sent: { id, result }, context: { csrfToken }, tenant }: TestParts) {
  const isGood = result.kind === 'answered' && result.status >= 200 && result.status < 300
  return (
    <>
      <PageHeader
        title="Test event"
        crumbs={[
          { label: 'Tenants', path: '/tenants' },
          { label: nameOf(tenant), path: `/tenants/${tenant.id}` },
        ]}
      >
        <PostForm
          action={`/tenants/${tenant.id}/test`}
          csrfToken={csrfToken}
          hidden={{ key: randomToken() }}
          isInline
        >
          <Submit tone="normal">Send another</Submit>
        </PostForm>
        <LinkButton href={`/tenants/${tenant.id}`}>Back to the tenant</LinkButton>
      </PageHeader>
      <Notice
        tone={isGood ? 'good' : 'bad'}
        title={isGood ? 'The callback took the event' : 'A delivery like this one would have failed'}
      >
        {result.kind === 'answered'
          ? isGood
            ? `It answered ${result.status} in ${durationText(result.durationMs)}.`
            : `It answered ${result.status} after ${durationText(result.durationMs)}; only 2xx counts, redirects are not followed.`
          : result.detail}
      </Notice>
      <Card title="What came back">
        <Facts
          facts={[
            ['webhook-id', <Copy text={id} label="Copy the id" />],
            ['Status', result.kind === 'answered' ? String(result.status) : undefined],
            ['Cause', result.kind === 'failed' ? <code>{result.cause}</code> : undefined],
            ['Time', durationText(result.durationMs)],
            ...(result.kind === 'answered' ? headerFacts(result.headers) : []),
          ]}
        />
        {result.kind === 'answered' &&
          (result.answer === '' ? (
            <p class="card-note">The answer has no body.</p>
          ) : (
            <CodeBlock text={result.answer} label="answer" />
          ))}
        {result.kind === 'answered' && result.answerCut && (
          <p class="card-note">The answer went on; only its beginning is read.</p>
        )}
      </Card>
    </>
  )
}

function headerFacts({
  contentType,
  retryAfter,
  webhookDelivery,
}: {
  readonly contentType?: string
  readonly retryAfter?: string
  readonly webhookDelivery?: string
}) {
  return [
    ['Content-Type', contentType],
    ['Retry-After', retryAfter],
    ['webhook-delivery', webhookDelivery],
  ] as const
}

/** Asks before deliveries to a suspended callback go on. */
export const askResumeRow: PageRow = {
  ...{ method: 'GET', path: '/tenants/:tenant/resume', section: 'tenants' },
  show: (context) =>
    withRight(context, 'replay', (tenant) =>
      shown(
        'Resume deliveries',
        <Confirm
          question={`Resume deliveries to ${nameOf(tenant)}?`}
          action={`/tenants/${tenant.id}/resume`}
          csrfToken={context.csrfToken}
          button="Resume deliveries"
          back={`/tenants/${tenant.id}`}
        >
          <p>
            All events that wait are sent to its callback as fast as it takes them. If it asks again to be
            left alone, by 410 or <code>webhook-delivery: disable</code>, it is suspended again.
          </p>
        </Confirm>,
      ),
    ),
}

/** Lets deliveries to a suspended callback go on. */
export const resumeRow: ActionRow = {
  ...{ method: 'POST', path: '/tenants/:tenant/resume', section: 'tenants', back: '/tenants/:tenant' },
  async act({ backoffice, actor, tenant }) {
    if (tenant === undefined) return { kind: 'needsTenant' }
    const resumed = await backoffice.callbacks.resume(actor, tenant.id)
    if (resumed.kind !== 'ok') return resumed
    const text = resumed.value.isNew ? 'Deliveries go on.' : 'The callback was not suspended.'
    return goTo(`/tenants/${tenant.id}`, text, resumed.value.isNew ? 'good' : 'info')
  },
}
