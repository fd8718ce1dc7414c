import type { ComponentChildren } from 'preact'
import { link } from '../page.ts'
import { Card, Notice, PageHeader } from './block.tsx'
import { Icon } from './text.tsx'

/** A field of a form. */
export interface Field {
  /** `time`: in UTC, as `2026-11-21T19:50`. */
  readonly kind: 'text' | 'number' | 'choice' | 'time'
  readonly name: string
  readonly label: string
  readonly value?: string | undefined
  /** Error of the value that was sent. */
  readonly problem?: string | undefined
  readonly hint?: string
  readonly placeholder?: string
  readonly isRequired?: boolean
  readonly isShort?: boolean
  readonly charsMax?: number
  /** Options of a choice. */
  readonly choices?: readonly Choice[]
  /** Label of the empty option of a choice. Omit if one is required. */
  readonly none?: string
}

interface Choice {
  readonly value: string
  readonly label: string
}

/** Makes options that are labelled with their values. */
export function choicesOf(values: readonly string[]): readonly Choice[] {
  return values.map((value) => ({ value, label: value.replaceAll('_', ' ') }))
}

/** Fields with their values and problems; `idPrefix` keeps ids of several forms on a page apart. */
export function Fields({
  fields,
  idPrefix = 'field',
}: {
  readonly fields: readonly Field[]
  readonly idPrefix?: string
}) {
  return (
    <>
      {fields.map((field) => (
        <FieldOf key={field.name} field={field} id={`${idPrefix}-${field.name}`} />
      ))}
    </>
  )
}

function FieldOf({ field, id }: { readonly field: Field; readonly id: string }) {
  const { hint, problem, label } = field
  const isShort = field.kind === 'number' || field.isShort === true
  return (
    <div class={`field${isShort ? ' is-short' : ''}`}>
      <label for={id}>{label}</label>
      <Control field={field} id={id} />
      {problem !== undefined && (
        <p class="problem-text" id={`${id}-problem`}>
          {problem}
        </p>
      )}
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

function Control({ field, id }: { readonly field: Field; readonly id: string }) {
  const { kind, name, value = '', problem, hint } = field
  const describedBy = [problem && `${id}-problem`, hint && `${id}-hint`].filter(Boolean).join(' ')
  const own = {
    ...{ id, name },
    ...(describedBy !== '' && { 'aria-describedby': describedBy }),
    ...(problem !== undefined && { 'aria-invalid': 'true' as const }),
  }
  if (kind === 'choice')
    return (
      <select {...own}>
        {field.none !== undefined && <option value="">{field.none}</option>}
        {field.choices?.map((choice) => (
          <option key={choice.value} value={choice.value} selected={choice.value === value}>
            {choice.label}
          </option>
        ))}
      </select>
    )
  if (kind === 'time')
    return <input {...own} type="datetime-local" step="1" value={value} autocomplete="off" />
  return (
    <input
      {...own}
      type="text"
      {...(kind === 'number' && { inputMode: 'numeric', pattern: '[0-9]*' })}
      value={value}
      placeholder={field.placeholder ?? ''}
      required={field.isRequired ?? false}
      maxLength={field.charsMax ?? 300}
      autocomplete="off"
      autocapitalize="none"
      spellcheck={false}
    />
  )
}

type Hidden = Readonly<Record<string, string | undefined>>

function HiddenFields({ fields }: { readonly fields: Hidden }) {
  return (
    <>
      {Object.entries(fields).map(
        ([name, value]) =>
          value !== undefined && <input key={name} type="hidden" name={name} value={value} />,
      )}
    </>
  )
}

/** Filters of a list, a `GET` form: the address holds them and can be shared. */
export function FilterForm({
  path,
  fields,
  more,
  kept = {},
  isActive,
}: {
  readonly path: string
  readonly fields: readonly Field[]
  /** Rarely used fields, collapsed unless one of them has a value. */
  readonly more?: { readonly label: string; readonly fields: readonly Field[] } | undefined
  /** Query parameters that are sent along without being shown. */
  readonly kept?: Hidden
  /** Shows the link that clears the filters. */
  readonly isActive: boolean
}) {
  return (
    <form class="filters" method="get" action={path} role="search" aria-label="Filters">
      <HiddenFields fields={kept} />
      <Fields fields={fields} idPrefix="filter" />
      <div class="filter-buttons">
        <button type="submit" class="button is-primary">
          <Icon name="search" /> Filter
        </button>
        {isActive && (
          <a class="button is-plain" href={link(path, kept)}>
            Clear
          </a>
        )}
      </div>
      {more !== undefined && (
        <details class="filters-more" open={more.fields.some(({ value }) => value !== undefined)}>
          <summary>{more.label}</summary>
          <div>
            <Fields fields={more.fields} idPrefix="filter" />
          </div>
        </details>
      )}
    </form>
  )
}

/** A form that changes something. It carries the CSRF token and hidden fields. */
export function PostForm({
  action,
  csrfToken,
  hidden = {},
  isInline = false,
  children,
}: {
  readonly action: string
  readonly csrfToken: string
  readonly hidden?: Hidden
  /** A lone button within text. */
  readonly isInline?: boolean
  readonly children: ComponentChildren
}) {
  return (
    <form method="post" action={action} class={isInline ? 'inline-form' : 'form'}>
      <input type="hidden" name="csrf" value={csrfToken} />
      <HiddenFields fields={hidden} />
      {children}
    </form>
  )
}

/** Look of a button: the main action, an irreversible one, or any other. */
export type ButtonTone = 'primary' | 'danger' | 'normal' | 'plain'

const buttonClass = (tone: ButtonTone) => (tone === 'normal' ? 'button' : `button is-${tone}`)

/** The button that sends its form. */
export function Submit({
  tone = 'primary',
  children,
}: {
  readonly tone?: ButtonTone
  readonly children: ComponentChildren
}) {
  return (
    <button type="submit" class={buttonClass(tone)}>
      {children}
    </button>
  )
}

/** A link that looks like a button. */
export function LinkButton({
  href,
  tone = 'normal',
  children,
}: {
  readonly href: string
  readonly tone?: ButtonTone
  readonly children: ComponentChildren
}) {
  return (
    <a class={buttonClass(tone)} href={href}>
      {children}
    </a>
  )
}

interface Sending {
  readonly action: string
  readonly csrfToken: string
  readonly hidden?: Hidden
  /** Label of the button, a verb: `Replay the event`. */
  readonly button: string
  readonly tone?: 'primary' | 'danger'
  /** Address of the button beside it. */
  readonly back: string
}

/** A form with the button that sends it and the link back. */
function SendForm({
  action,
  csrfToken,
  hidden = {},
  button,
  tone = 'primary',
  back,
  children,
}: Sending & { readonly children?: ComponentChildren }) {
  return (
    <PostForm action={action} csrfToken={csrfToken} hidden={hidden}>
      {children}
      <div class="buttons">
        <Submit tone={tone}>{button}</Submit>
        <LinkButton href={back} tone="plain">
          Back
        </LinkButton>
      </div>
    </PostForm>
  )
}

/** Asks before an action: what will happen, to which tenant, and whether it can be undone. */
export function Confirm({
  question,
  children,
  ...sending
}: Sending & { readonly question: string; readonly children: ComponentChildren }) {
  return (
    <div class="confirm card">
      <h1>{question}</h1>
      <div class="confirm-text">{children}</div>
      <SendForm {...sending} />
    </div>
  )
}

/** Content of a page with one form. */
export function FormPage({
  title,
  lead,
  crumb,
  card,
  problem,
  children,
  fields,
  isPaired = false,
  ...sending
}: Sending & {
  readonly title: ComponentChildren
  readonly lead: string
  /** Label of the breadcrumb that leads back. */
  readonly crumb: string
  /** Heading of the form. */
  readonly card: string
  /** Error of the form as a whole. */
  readonly problem?: { readonly title: string; readonly text?: string } | undefined
  readonly fields: readonly Field[]
  /** Two fields per row. */
  readonly isPaired?: boolean
  /** Content above the fields. */
  readonly children?: ComponentChildren
}) {
  return (
    <>
      <PageHeader title={title} crumbs={[{ label: crumb, path: sending.back }]} lead={lead} />
      {problem !== undefined && (
        <Notice tone="bad" title={problem.title}>
          {problem.text}
        </Notice>
      )}
      <Card title={card}>
        {children}
        <SendForm {...sending}>
          {isPaired ? (
            <div class="form-pair">
              <Fields fields={fields} />
            </div>
          ) : (
            <Fields fields={fields} />
          )}
        </SendForm>
      </Card>
    </>
  )
}

const timeForm = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?)?(?:\.\d{1,3})?Z?$/
const yearMin = 2000
const yearMax = 2100

/** Problem of a field whose text is not a time. */
export const timeProblem = 'Give a time in UTC, such as 2026-11-21T19:50'

/** Problem of an end that is not later than its start. */
export const orderProblem = 'The end has to be later than the start'

/** Parses a UTC time, to the second or a day alone, into ms since the epoch; undefined if invalid. Pure. */
export function parseTimeField(text: string): number | undefined {
  const [, day, minute = '00:00', second = ':00'] = timeForm.exec(text) ?? []
  if (day === undefined) return undefined
  const iso = `${day}T${minute}${second}.000Z`
  const atMs = Date.parse(iso)
  if (Number.isNaN(atMs)) return undefined
  const date = new Date(atMs)
  // `Date` turns 30 February into a day of March.
  const isReal = date.toISOString() === iso
  return isReal && date.getUTCFullYear() >= yearMin && date.getUTCFullYear() < yearMax ? atMs : undefined
}

/** Parses a start and an end, and names the problem of either. Pure. */
export function parseTimeFields({ from, to }: { readonly from?: string; readonly to?: string }): {
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  readonly problems: { readonly from?: string; readonly to?: string }
} {
  const fromMs = from === undefined ? undefined : parseTimeField(from)
  const toMs = to === undefined ? undefined : parseTimeField(to)
  const isBackwards = fromMs !== undefined && toMs !== undefined && fromMs >= toMs
  const problems = {
    ...(from !== undefined && fromMs === undefined && { from: timeProblem }),
    ...(to !== undefined && toMs === undefined && { to: timeProblem }),
    ...(isBackwards && { to: orderProblem }),
  }
  return { fromMs, toMs, problems }
}

/** Formats a time for a field of kind `time`, in UTC to the second. Pure. */
export function timeFieldText(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19)
}
