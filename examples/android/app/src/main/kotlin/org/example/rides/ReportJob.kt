package org.example.rides

import android.app.job.JobInfo
import android.app.job.JobParameters
import android.app.job.JobScheduler
import android.app.job.JobService
import android.content.ComponentName
import android.content.Context
import dev.godwit.GodwitException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.launch

/** Tells the server what was shown and done, once there is a network. With WorkManager it is a `CoroutineWorker` of the same three lines. */
class ReportJob : JobService() {
    private var running: Job? = null

    override fun onStartJob(parameters: JobParameters): Boolean {
        running = CoroutineScope(Dispatchers.IO).launch {
            val again = try {
                RidesApp.of(this@ReportJob).push.flush()
                false
            } catch (_: GodwitException) {
                true // later, as the backoff says
            }
            jobFinished(parameters, again)
        }
        return true // it goes on
    }

    /** The network is gone, or the time is up. */
    override fun onStopJob(parameters: JobParameters): Boolean {
        running?.cancel()
        return true // later
    }

    companion object {
        const val ID = 1
        private const val BACKOFF_MILLIS = 10_000L

        fun schedule(context: Context) {
            val job = JobInfo.Builder(ID, ComponentName(context, ReportJob::class.java))
                .setRequiredNetworkType(JobInfo.NETWORK_TYPE_ANY)
                .setBackoffCriteria(BACKOFF_MILLIS, JobInfo.BACKOFF_POLICY_EXPONENTIAL)
                .setPersisted(true)
                .build()
            checkNotNull(context.getSystemService(JobScheduler::class.java)).schedule(job)
        }
    }
}
