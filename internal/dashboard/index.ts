export { createDashboard, type Dashboard } from './dashboard.tsx'
export type { DashboardOptions } from './parts.ts'
