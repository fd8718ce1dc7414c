import type { ComponentChildren } from 'preact'
import { type CallTrace, traceSteps } from '#internal/providers/index.ts'
import { Card, Facts, Notice } from '../components/block.tsx'
import { choicesOf, type Field, FormPage, filled, type Problems, readFields } from '../components/form.tsx'
import { type ActionRow, link, type PageContext, type PageRow, shown } from '../page.ts'
import { invalidText } from '../problem.tsx'
import type { Form } from '../request.ts'
import { refusedAdviceOf } from './refused.tsx'

const path = '/refused/verify'
const title = 'Verify a call'
const bodyCharsMax = 20_000

function fieldsOf(providers: readonly string[]) {
  return [
    {
      kind: 'choice',
      name: 'provider',
      label: 'Provider',
      isRequired: true,
      choices: choicesOf(providers),
    },
    {
      kind: 'text',
      name: 'secret',
      label: 'Secret',
      isRequired: true,
      charsMax: 8_192,
      hint: 'The provider’s signing secret or public key. It is used for this answer, and neither stored nor shown again.',
    },
    {
      kind: 'lines',
      name: 'headers',
      label: 'Headers',
      isRequired: true,
      charsMax: 10_000,
      rows: 8,
      placeholder: 'X-Signature: …',
      hint: 'One a line, as received.',
    },
    {
      kind: 'lines',
      name: 'body',
      label: 'Body',
      charsMax: bodyCharsMax,
      rows: 8,
      hint: 'The exact text as received. A signature covers every character, spaces and line ends included.',
    },
    {
      kind: 'text',
      name: 'at',
      label: 'Time of the call',
      isShort: true,
      charsMax: 40,
      placeholder: '2026-11-21T19:50:07Z',
      hint: 'Empty: now. Signed times must be near it.',
    },
    {
      kind: 'text',
      name: 'url',
      label: 'URL of the call',
      charsMax: 2_048,
      hint: 'Only for providers that sign it, such as Twilio and Square.',
    },
  ] as const satisfies readonly Field[]
}

const formRow: PageRow = {
  method: 'GET',
  path,
  section: 'refused',
  show: async (context) => {
    const listed = await context.backoffice.providers.list(context.actor, undefined)
    if (listed.kind !== 'ok') return listed
    return shown(title, <VerifyForm context={context} providers={listed.value} typed={context.query} />)
  },
}

/** The form is sent with `POST`, so that neither the call nor the secret is in an address or in a log. */
const verifyRow: ActionRow = {
  method: 'POST',
  path,
  section: 'refused',
  back: path,
  act: async (context) => {
    const { backoffice, actor, form } = context
    const listed = await backoffice.providers.list(actor, undefined)
    if (listed.kind !== 'ok') return listed
    const providers = listed.value
    const { values, problems } = readFields(fieldsOf(providers), form)
    const again = (wrong: Problems, text?: string) =>
      shown(
        title,
        <VerifyForm context={context} providers={providers} typed={form} problems={wrong} problem={text} />,
        422,
      )
    const { provider, secret, headers, body = '', at, url = '' } = values
    const isWrong = Object.keys(problems).length > 0
    if (isWrong || provider === undefined || secret === undefined || headers === undefined)
      return again(problems)
    // Browsers send every line end as CRLF, whatever was pasted, so CRLF is converted to LF.
    const call = { provider, secret, headers, url, at, body: body.replaceAll('\r\n', '\n') }
    const traced = await backoffice.providers.trace(actor, call)
    if (traced.kind === 'invalid')
      return traced.field === undefined
        ? again({}, invalidText(traced))
        : again({ [traced.field]: invalidText(traced) })
    if (traced.kind !== 'ok') return traced
    return shown(
      title,
      <>
        <VerifyForm context={context} providers={providers} typed={form} />
        <Steps trace={traced.value} />
      </>,
    )
  },
}

function VerifyForm({
  context,
  providers,
  typed,
  problems = {},
  problem,
}: {
  readonly context: PageContext
  readonly providers: readonly string[]
  readonly typed: Form
  readonly problems?: Problems
  readonly problem?: string | undefined
}) {
  const { csrfToken, tenant } = context
  const { secret: _secret, ...kept } = typed
  return (
    <FormPage
      title={title}
      lead="Paste a captured call with its secret, and see each step of its verification."
      crumb="Refused calls"
      card="Captured call"
      action={path}
      csrfToken={csrfToken}
      hidden={{ tenant: tenant?.id }}
      button="Verify"
      back={link('/refused', { tenant: tenant?.id })}
      fields={filled(fieldsOf(providers), kept, problems)}
      problem={problem === undefined ? undefined : { title: problem }}
    />
  )
}

function Steps({ trace }: { readonly trace: CallTrace }) {
  const facts = traceSteps(trace).map(({ title: name, texts, isLiteral }): [string, ComponentChildren] => [
    `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
    isLiteral ? texts.map((text) => <code>{text}</code>) : texts,
  ])
  return (
    <Card title="Steps">
      <Result outcome={trace.outcome} />
      <Facts facts={facts} />
    </Card>
  )
}

function Result({ outcome }: { readonly outcome: CallTrace['outcome'] }) {
  switch (outcome.kind) {
    case 'event':
      return (
        <Notice tone="good" title="The call is verified">
          It becomes an event of type {outcome.event.type} ({outcome.event.rawType}) with the id{' '}
          {outcome.event.sourceEventId}.
        </Notice>
      )
    case 'answered':
      return (
        <Notice tone="good" title="The call checks the URL">
          It is answered with status {outcome.answer.status}: {outcome.answer.body}
        </Notice>
      )
    case 'confirms':
      return (
        <Notice tone="good" title="The call is verified">
          It makes no event: the subscription is confirmed at {outcome.url}.
        </Notice>
      )
    case 'keys_needed':
      return (
        <Notice tone="warn" title="The keys of the vendor are needed">
          They are published at {outcome.url}, which this page does not call. Save them to a file, and verify
          the call by <code>latchkey providers test</code> with <code>--keys-file</code>.
        </Notice>
      )
    case 'verified_only': {
      const { title: name, todo } = refusedAdviceOf(outcome.cause)
      return (
        <Notice tone="warn" title={`The signature is valid, but the call is refused: ${name}`}>
          {todo}
        </Notice>
      )
    }
    case 'refused': {
      const { title: name, means } = refusedAdviceOf(outcome.cause)
      return (
        <Notice tone="bad" title={`The call is refused: ${name}`}>
          {means}
        </Notice>
      )
    }
  }
}

export const verifyCallRows = [formRow, verifyRow] as const
