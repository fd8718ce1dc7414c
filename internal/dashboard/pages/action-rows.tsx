import type { ComponentChildren } from 'preact'
import type { Action } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { Confirm } from '../components/form.tsx'
import {
  type ActionContext,
  type ActionRow,
  type PageContext,
  type PageResult,
  type PageRow,
  type SectionName,
  shown,
  withRightTo,
} from '../page.ts'
import type { Form } from '../request.ts'

/** Action that the user must confirm. Both methods have the same path: `GET` asks for confirmation, `POST` acts. */
interface PageAction<Subject> {
  readonly path: string
  readonly section: SectionName
  /** Route of the page that the response to the form links back to. */
  readonly back: string
  readonly title: string
  readonly right: Action
  find(context: PageContext, fields: Form): Promise<Found<Subject>> | Found<Subject>
  ask(subject: Subject, context: PageContext): Promise<Question> | Question
  act(subject: Subject, context: ActionContext): Promise<PageResult>
}

type Found<Subject> =
  | { readonly kind: 'found'; readonly subject: Subject; readonly owner: TenantId | 'all' }
  | PageResult

interface Question {
  readonly question: string
  readonly text: ComponentChildren
  readonly button: string
  readonly tone?: 'danger'
  /** Hidden fields by which the server detects a repeated form. */
  readonly hidden?: Readonly<Record<string, string | undefined>>
  readonly back: string
}

/** Returns the confirmation page and the action. Both respond 403 to actors without the right. */
export function actionRows<Subject>(action: PageAction<Subject>): readonly [PageRow, ActionRow] {
  const { path, section, back, title, right } = action
  const proceed = async (
    context: PageContext,
    fields: Form,
    work: (subject: Subject, owner: TenantId | 'all') => Promise<PageResult> | PageResult,
  ): Promise<PageResult> => {
    const found = await action.find(context, fields)
    if (found.kind !== 'found') return found
    return withRightTo(context, found.owner, right, () => work(found.subject, found.owner))
  }
  return [
    {
      method: 'GET',
      path,
      section,
      show: (context) =>
        proceed(context, context.query, async (subject, owner) => {
          const { question, text, back: leave, hidden, ...sending } = await action.ask(subject, context)
          const [address = path] = context.here.split('?')
          const page = shown(
            title,
            <Confirm
              question={question}
              action={address}
              csrfToken={context.csrfToken}
              hidden={{ tenant: context.query['tenant'], ...hidden }}
              back={leave}
              {...sending}
            >
              {text}
            </Confirm>,
          )
          return owner === 'all' ? page : { ...page, tenantId: owner }
        }),
    },
    {
      method: 'POST',
      path,
      section,
      back,
      act: (context) => proceed(context, context.form, (subject) => action.act(subject, context)),
    },
  ]
}
