import type { ComponentChildren } from 'preact'
import { link } from '../page.ts'
import { Icon } from './icon.tsx'

/** An option of a choice. */
export interface Choice {
  readonly value: string
  readonly label: string
}

/** One field of a form. */
export type Field = FieldKind & {
  /** What is wrong with what was sent, and how to mend it. */
  readonly problem?: string | undefined
}

type FieldKind =
  | {
      readonly kind: 'text' | 'number' | 'password'
      readonly name: string
      readonly label: string
      readonly value?: string | undefined
      readonly placeholder?: string
      readonly hint?: string
      readonly isRequired?: boolean
      readonly charsMax?: number
      readonly isShort?: boolean
    }
  | {
      readonly kind: 'choice'
      readonly name: string
      readonly label: string
      readonly value?: string | undefined
      readonly choices: readonly Choice[]
      /** What the empty choice is called; absent: there is none. */
      readonly none?: string
      readonly hint?: string
    }
  | {
      readonly kind: 'longText'
      readonly name: string
      readonly label: string
      readonly value?: string | undefined
      readonly hint?: string
      readonly isRequired?: boolean
      readonly charsMax?: number
    }
  /** In UTC, as `2026-11-21T19:50`. */
  | {
      readonly kind: 'time'
      readonly name: string
      readonly label: string
      readonly value?: string | undefined
      readonly hint?: string
    }

/** Fields as a form shows them. `idPrefix` keeps ids apart where a page has several forms. */
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
  const isShort = field.kind === 'number' || (field.kind === 'text' && field.isShort === true)
  const ids = [problem && `${id}-problem`, hint && `${id}-hint`].filter(Boolean).join(' ')
  return (
    <div class={`field${isShort ? ' is-short' : ''}`}>
      <label for={id}>{label}</label>
      <Control field={field} id={id} describedBy={ids === '' ? undefined : ids} />
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

function Control({
  field,
  id,
  describedBy,
}: {
  readonly field: Field
  readonly id: string
  readonly describedBy: string | undefined
}) {
  const own = {
    ...{ id, name: field.name },
    ...(describedBy !== undefined && { 'aria-describedby': describedBy }),
    ...(field.problem !== undefined && { 'aria-invalid': 'true' as const }),
  }
  if (field.kind === 'choice')
    return (
      <select {...own}>
        {field.none !== undefined && <option value="">{field.none}</option>}
        {field.choices.map(({ value, label }) => (
          <option key={value} value={value} selected={value === field.value}>
            {label}
          </option>
        ))}
      </select>
    )
  if (field.kind === 'longText')
    return (
      <textarea {...own} rows={3} required={field.isRequired ?? false} maxLength={field.charsMax ?? 2_000}>
        {field.value ?? ''}
      </textarea>
    )
  if (field.kind === 'time')
    return <input {...own} type="datetime-local" step="1" value={field.value ?? ''} autocomplete="off" />
  const text = {
    ...own,
    value: field.value ?? '',
    placeholder: field.placeholder ?? '',
    required: field.isRequired ?? false,
    maxLength: field.charsMax ?? 300,
    autocomplete: 'off',
    autocapitalize: 'none',
    spellcheck: false,
  } as const
  if (field.kind === 'password') return <input {...text} type="password" />
  if (field.kind === 'number') return <input {...text} type="text" inputMode="numeric" pattern="[0-9]*" />
  return <input {...text} type="text" />
}

/**
 * A list's filters. It is a `GET` form: what is chosen stands in the address, which can be shared. `kept` goes along without being
 * shown, such as the tenant.
 */
export function FilterForm({
  path,
  fields,
  more,
  kept = {},
  isActive,
}: {
  readonly path: string
  readonly fields: readonly Field[]
  /** Fields that are seldom needed: shown when they are asked for, or when one of them is filled in. */
  readonly more?: { readonly label: string; readonly fields: readonly Field[] }
  readonly kept?: Readonly<Record<string, string | undefined>>
  /** Whether any filter is set, so that they can be cleared. */
  readonly isActive: boolean
}) {
  return (
    <form class="filters" method="get" action={path} role="search" aria-label="Filters">
      {Object.entries(kept).map(
        ([name, value]) =>
          value !== undefined && <input key={name} type="hidden" name={name} value={value} />,
      )}
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
      {more !== undefined && <MoreFilters {...more} />}
    </form>
  )
}

function MoreFilters({ label, fields }: { readonly label: string; readonly fields: readonly Field[] }) {
  return (
    <details class="filters-more" open={fields.some(({ value }) => value !== undefined)}>
      <summary>{label}</summary>
      <div>
        <Fields fields={fields} idPrefix="filter" />
      </div>
    </details>
  )
}

/** A form that changes something: it carries the session's token, without which it is refused. */
export function PostForm({
  action,
  csrfToken,
  hidden = {},
  isInline = false,
  children,
}: {
  readonly action: string
  readonly csrfToken: string
  /** Fields that are sent without being shown. */
  readonly hidden?: Readonly<Record<string, string | undefined>>
  /** Stands among text, such as a lone button. */
  readonly isInline?: boolean
  readonly children: ComponentChildren
}) {
  return (
    <form method="post" action={action} class={isInline ? 'inline-form' : 'form'}>
      <input type="hidden" name="csrf" value={csrfToken} />
      {Object.entries(hidden).map(
        ([name, value]) =>
          value !== undefined && <input key={name} type="hidden" name={name} value={value} />,
      )}
      {children}
    </form>
  )
}

/** How a button looks: what is mainly done here, what cannot be undone, or anything else. */
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

/**
 * The body of a page that asks before something is done: what will happen, the button that does it, and the way back. The page is a
 * `GET`, so that the question has an address and needs no script.
 */
export function Confirm({
  question,
  children,
  action,
  csrfToken,
  hidden,
  button,
  tone = 'primary',
  back,
}: {
  readonly question: string
  /** What will happen, to whom, and whether it can be undone. */
  readonly children: ComponentChildren
  readonly action: string
  readonly csrfToken: string
  readonly hidden?: Readonly<Record<string, string | undefined>>
  /** The deed as a verb: `Replay the event`. */
  readonly button: string
  readonly tone?: 'primary' | 'danger'
  /** Where to go instead. */
  readonly back: string
}) {
  return (
    <div class="confirm card">
      <h1>{question}</h1>
      <div class="confirm-text">{children}</div>
      <PostForm action={action} csrfToken={csrfToken} {...(hidden !== undefined && { hidden })}>
        <div class="buttons">
          <Submit tone={tone}>{button}</Submit>
          <LinkButton href={back} tone="plain">
            Back
          </LinkButton>
        </div>
      </PostForm>
    </div>
  )
}
