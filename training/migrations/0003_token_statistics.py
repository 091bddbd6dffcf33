

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0002_job_curves'),
    ]

    operations = [
        migrations.CreateModel(
            name='TokenStatistics',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dataset_sha256', models.CharField(max_length=64)),
                ('base_model', models.CharField(max_length=64)),
                ('revision', models.CharField(max_length=100)),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('counting', 'Counting'), ('ready', 'Ready'), ('failed', 'Failed')], default='waiting', max_length=16)),
                ('error', models.TextField(blank=True, default='')),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('num_rows', models.PositiveBigIntegerField(default=0)),
                ('num_refused', models.PositiveBigIntegerField(default=0)),
                ('refused_line', models.PositiveBigIntegerField(blank=True, null=True)),
                ('refused_why', models.TextField(blank=True, default='')),
                ('num_trained', models.PositiveBigIntegerField(default=0)),
                ('lengths', models.JSONField(default=dict)),
                ('firsts', models.JSONField(default=dict)),
            ],
            options={
                'verbose_name': 'token statistics',
                'verbose_name_plural': 'token statistics',
                'db_table': 'gb_dataset_token_statistics',
                'indexes': [models.Index(condition=models.Q(('status__in', ('waiting', 'counting'))), fields=['asked_at'], name='tokens_to_count')],
                'constraints': [models.UniqueConstraint(fields=('dataset_sha256', 'base_model', 'revision'), name='tokens_are_counted_once')],
            },
        ),
    ]
