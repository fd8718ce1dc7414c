export { createDashboard, type Dashboard, type DashboardOptions } from './dashboard.tsx'
export { packSite, type SiteFile, unpackSite } from './documentation/archive.ts'
export { documentationPath } from './documentation/documentation.tsx'
export { refusedCauseAdvice } from './pages/refused.tsx'
