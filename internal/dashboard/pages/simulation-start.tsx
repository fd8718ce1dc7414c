import { Value } from '@sinclair/typebox/value'
import { randomToken } from '#internal/base/index.ts'
import {
  chargebackOutcomes,
  chargebackReasons,
  SimulateChargebackRequest,
  simulatedProviders,
  stepSecondsMax,
} from '#internal/simulations/index.ts'
import { Card, Notice, PageHeader } from '../components/block.tsx'
import { type Field, Fields, LinkButton, PostForm, Submit } from '../components/form.tsx'
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
import { withRight } from './rights.ts'
import { nameOf } from './tenant.tsx'

const path = '/simulations/new'
const fieldNames = [
  'provider',
  'amount',
  'currency',
  'reason',
  'outcome',
  'stepSeconds',
  'reference',
] as const
type FieldName = (typeof fieldNames)[number]
type Problems = Partial<Record<FieldName | 'all', string>>

/** The form by which a simulation is started. */
export const startFormRow: PageRow = {
  ...{ method: 'GET', path, section: 'simulations' },
  show: (context) =>
    withRight(context, 'simulate', () => {
      const typed = { currency: 'EUR', amount: '4200', stepSeconds: '5', ...context.query }
      return shown(
        'Start a simulation',
        <StartForm {...{ context, typed, problems: {}, key: randomToken() }} />,
      )
    }),
}

/** Starts a simulation; a form that is sent twice starts one. */
export const startRow: ActionRow = {
  ...{ method: 'POST', path, section: 'simulations', back: path, backKeeps: fieldNames },
  act: (context) =>
    withRight(context, 'simulate', async (tenant) => {
      const { form, backoffice, actor } = context
      const idempotencyKey = form['key'] ?? ''
      const refused = (problems: Problems): PageResult => ({
        ...shown(
          'Start a simulation',
          <StartForm {...{ context, typed: form, problems, key: idempotencyKey }} />,
        ),
        status: 422,
      })
      const read = readTyped(form)
      if (read.kind === 'wrong') return refused(read.problems)
      const started = await backoffice.simulations.start(actor, {
        ...{ tenantId: tenant.id, chargeback: read.chargeback, idempotencyKey },
      })
      if (started.kind === 'invalid' || started.kind === 'conflict' || started.kind === 'tooMany')
        return refused({ all: started.problem })
      if (started.kind !== 'ok') return started
      return goTo(`/simulations/${started.value.simulation.id}`, 'The simulation was started.')
    }),
}

/** Reads what was typed by the schema of the public call, or says of each field what is wrong with it. Pure. */
export function readTyped(
  form: Form,
):
  | { readonly kind: 'read'; readonly chargeback: SimulateChargebackRequest }
  | { readonly kind: 'wrong'; readonly problems: Problems } {
  const typed = Object.fromEntries(
    fieldNames.flatMap((name) => {
      const text = form[name]
      if (text === undefined || text === '') return []
      return [[name, isNumber(name) && /^\d{1,15}$/.test(text) ? Number(text) : text]]
    }),
  )
  if (Value.Check(SimulateChargebackRequest, typed)) return { kind: 'read', chargeback: typed }
  const wrong = [...Value.Errors(SimulateChargebackRequest, typed)].map(({ path: at }) => at.slice(1))
  const named = fieldNames.filter((name) => wrong.includes(name))
  return { kind: 'wrong', problems: Object.fromEntries(named.map((name) => [name, expected[name]])) }
}

function isNumber(name: FieldName): boolean {
  return name === 'amount' || name === 'stepSeconds'
}

const expected: Readonly<Record<FieldName, string>> = {
  provider: 'Choose card or wallet',
  amount: 'Give a whole number from 1 on, in the smallest unit of the currency: 4200 is 42.00 EUR',
  currency: 'Give the three letters of ISO 4217, such as EUR',
  reason: 'Choose one of the reasons',
  outcome: 'Choose won or lost',
  stepSeconds: `Give whole seconds from 0 to ${stepSecondsMax}`,
  reference: 'Use 1 to 127 printable characters',
}

interface FormParts {
  readonly context: PageContext
  readonly typed: Form
  readonly problems: Problems
  /** Makes a repeat the same simulation. */
  readonly key: string
}

function StartForm({ context: { tenant, csrfToken }, typed, problems, key }: FormParts) {
  if (tenant === undefined) return null
  const back = link('/simulations', { tenant: tenant.id })
  return (
    <>
      <PageHeader
        title="Start a simulation"
        crumbs={[{ label: 'Simulations', path: back }]}
        lead={`A dispute at ${nameOf(tenant)}: opened, under review, then won or lost. Its callback gets the events as it gets real ones, marked by the header latchkey-simulation.`}
      />
      {problems.all !== undefined && <Notice tone="bad" title={problems.all} />}
      <Card title="Chargeback">
        <PostForm action={path} csrfToken={csrfToken} hidden={{ tenant: tenant.id, key }}>
          <div class="form-pair">
            <Fields fields={fieldsOf(typed, problems)} />
          </div>
          <div class="buttons">
            <Submit>Start the simulation</Submit>
            <LinkButton href={back} tone="plain">
              Back
            </LinkButton>
          </div>
        </PostForm>
      </Card>
    </>
  )
}

function fieldsOf(typed: Form, problems: Problems): readonly Field[] {
  const of = (name: FieldName) => ({ name, value: typed[name], problem: problems[name] })
  const choicesOf = (values: readonly string[]) =>
    values.map((value) => ({ value, label: value.replaceAll('_', ' ') }))
  return [
    { ...{ kind: 'choice', label: 'Provider', choices: choicesOf(simulatedProviders) }, ...of('provider') },
    { ...{ kind: 'choice', label: 'Outcome', choices: choicesOf(chargebackOutcomes) }, ...of('outcome') },
    {
      ...{ kind: 'number', label: 'Amount', charsMax: 12, isRequired: true, ...of('amount') },
      hint: 'In the smallest unit: 4200 is 42.00 EUR.',
    },
    {
      ...{ kind: 'text', label: 'Currency', charsMax: 3, isRequired: true, ...of('currency') },
      hint: 'ISO 4217.',
    },
    { ...{ kind: 'choice', label: 'Reason', choices: choicesOf(chargebackReasons) }, ...of('reason') },
    {
      ...{ kind: 'number', label: 'Seconds between events', charsMax: 5, ...of('stepSeconds') },
      hint: '0 to 86400; the first event is due at once.',
    },
    {
      ...{ kind: 'text', label: 'Reference', charsMax: 127, ...of('reference') },
      hint: 'Your own name of the payment; may be left empty.',
    },
  ]
}
