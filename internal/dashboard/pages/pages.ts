import type { ActionRow, PageRow } from '../page.ts'
import { goRow } from './go.ts'
import { overviewRow } from './overview.tsx'

/** Every page and every form, one row each. */
export const pages: readonly (PageRow | ActionRow)[] = [overviewRow, goRow]
