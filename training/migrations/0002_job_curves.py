

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='JobSeries',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='series', serialize=False, to='training.trainingjob')),
                ('next_seq', models.PositiveBigIntegerField(default=0)),
                ('data', models.JSONField(default=dict)),
            ],
            options={
                'verbose_name': 'job series',
                'db_table': 'gb_training_job_series',
            },
        ),
        migrations.AddField(
            model_name='trainingjob',
            name='curve',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddIndex(
            model_name='jobevent',
            index=models.Index(fields=['run', 'type', 'seq'], name='events_of_type'),
        ),
    ]
