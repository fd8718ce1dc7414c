import type { Access, Sessions } from '#internal/access/index.ts'
import type { Backoffice } from '#internal/backoffice/index.ts'
import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { Assets } from './assets/assets.ts'
import type { LiveStreams } from './live.ts'
import type { FindWayBack } from './way-back.ts'

/** What the dashboard is made of. */
export interface DashboardOptions {
  readonly backoffice: Backoffice
  readonly access: Pick<Access, 'authenticate'>
  readonly sessions: Sessions
  /** For tenants' names, from memory. */
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly clock: Clock
  /** Whether this is `npm run dev`, whose token the sign-in page asks for. Default false. */
  readonly isDev?: boolean
  /** What people have to know of figures; absent: nothing. */
  readonly figuresNote?: FiguresNote | undefined
}

/** Tells what there is to know of the figures from a time on, of a tenant or of all; undefined where they are as they look. */
export type FiguresNote = (figures: {
  readonly fromMs: number
  readonly tenantId?: TenantId | undefined
}) => { readonly title: string; readonly text: string } | undefined

/** What every page is served with. */
export interface DashboardParts extends DashboardOptions {
  readonly assets: Assets
  readonly live: LiveStreams
  readonly wayBack: FindWayBack
}
