import type { TenantId } from '#internal/base/index.ts'
import type { DashboardOptions } from '#internal/dashboard/index.ts'

/** What the dashboard says beside figures that were made up. */
export interface FiguresNote {
  readonly note: NonNullable<DashboardOptions['figuresNote']>
  /** Whose figures are made up, and before when: from then on it is said. */
  know(tenantId: TenantId, untilMs: number): void
}

/** Makes the note; it says nothing until it knows of something. */
export function createFiguresNote(): FiguresNote {
  let madeUp: { readonly tenantId: TenantId; readonly untilMs: number } | undefined
  return {
    know: (tenantId, untilMs) => void (madeUp = { tenantId, untilMs }),
    note({ fromMs, tenantId }) {
      if (madeUp === undefined || fromMs >= madeUp.untilMs) return undefined
      if (tenantId !== undefined && tenantId !== madeUp.tenantId) return undefined
      const until = new Date(madeUp.untilMs).toISOString()
      return {
        title: `Figures from before ${until.slice(0, 10)} ${until.slice(11, 16)} UTC are made up`,
        text: 'This dev server made them for the demo tenant, so that charts have a shape. No events are behind those: where they lead to a list, it holds what really came in.',
      }
    },
  }
}
